/*-------------------------------------------------------------------------
 *
 * privilege.c
 *	  Who may do what: the privileges on a queue's table say so.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_namespace.h"
#include "commands/extension.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/rls.h"

#include "compat.h"
#include "pg_sqs.h"

/* Whether the user has all of these privileges on a queue. */
static bool
has_queue_privilege(const Queue *queue, AclMode mode)
{
	return pg_class_aclmask(queue->relid, GetUserId(), mode,
							ACLMASK_ALL) == mode;
}

/* Whether policies of row security apply to the user. */
static bool
is_bound_by_policies(const Queue *queue)
{
	return queue->row_security &&
		check_enable_rls(queue->relid, InvalidOid, true) == RLS_ENABLED;
}

/* Whether the user may see how many messages a queue has. */
bool
may_count_messages(const Queue *queue)
{
	return has_queue_privilege(queue, ACL_SELECT) &&
		!is_bound_by_policies(queue);
}

/* Raises an error where this transaction cannot write. */
void
check_may_write(const char *call)
{
	PreventCommandIfReadOnly(call);
	PreventCommandIfParallelMode(call);
}

/* The actions that stand for privileges on a queue. */
static const char *
actions_of(AclMode mode)
{
	switch (mode)
	{
		case ACL_INSERT:
			return "SendMessage";
		case ACL_SELECT | ACL_UPDATE:
			return "ReceiveMessage";
		case ACL_SELECT | ACL_UPDATE | ACL_DELETE:
			return "ReceiveMessage and DeleteMessage";
		case ACL_DELETE:
			return "DeleteMessage";
		case ACL_UPDATE:
			return "ChangeMessageVisibility";
		default:
			return "GetQueueAttributes";
	}
}

/* Raises an error unless the user has all of these privileges on the queue. */
void
check_queue_privilege(const Queue *queue, AclMode mode)
{
	if (!has_queue_privilege(queue, mode))
		ereport(ERROR,
				errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				errmsg("permission denied for queue \"%s\"", queue->name),
				errhint("The queue's owner can grant %s with sqs_add_permission().",
						actions_of(mode)));
}

/*
 * The same, for the queue's messages: policies of row security would not be
 * applied to them, so whoever is subject to some is refused.
 */
void
check_message_privilege(const Queue *queue, AclMode mode)
{
	check_queue_privilege(queue, mode);
	if (is_bound_by_policies(queue))
		ereport(ERROR,
				errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				errmsg("queue \"%s\" has row security enabled", queue->name),
				errhint("Grant queue privileges with sqs_add_permission() instead of row security policies."));
}

/* Whether the user owns a queue. */
bool
owns_queue(const Queue *queue)
{
	return object_ownercheck(RelationRelationId, queue->relid, GetUserId());
}

/* Raises an error unless he does. */
void
check_queue_owner(const Queue *queue)
{
	if (!owns_queue(queue))
		ereport(ERROR,
				errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				errmsg("must be owner of queue \"%s\"", queue->name));
}

/*
 * Opens the queue of argument 0 for a call that changes its messages, which
 * takes a right.
 */
QueueTable *
open_queue_to_write(FunctionCallInfo fcinfo, const char *call, AclMode right,
					Queue *queue)
{
	QueueTable *table;

	check_may_write(call);
	catalog_get(text_argument(fcinfo, 0), queue);
	if (!storage_open(queue, RowExclusiveLock, &table))
		report_missing_queue(queue->name);
	check_message_privilege(queue, right);
	return table;
}

/* Raises an error unless the user may create queues. */
void
check_create_privilege(void)
{
	Oid			schema = get_namespace_oid(SQS_SCHEMA, false);
	Oid			user = GetUserId();

	if (object_aclcheck(NamespaceRelationId, schema, user, ACL_CREATE) != ACLCHECK_OK)
		ereport(ERROR,
				errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				errmsg("permission denied to create a queue"),
				errhint("GRANT CREATE ON SCHEMA %s TO %s allows it.", SQS_SCHEMA,
						quote_identifier(GetUserNameFromId(user, false))));
}

/* Raises an error unless the user owns the extension. */
void
check_extension_owner(void)
{
	if (!object_ownercheck(ExtensionRelationId,
						   get_extension_oid("pg_sqs", false), GetUserId()))
		ereport(ERROR,
				errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				errmsg("must be owner of extension %s", "pg_sqs"));
}
