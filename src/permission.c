/*-------------------------------------------------------------------------
 *
 * permission.c
 *	  sqs_add_permission, sqs_remove_permission and sqs_list_permissions.
 *
 * A permission is a native privilege on the queue's table, granted by GRANT;
 * what is kept in sqs.permission is only which label it was granted under.
 * What is not in effect, because the role is gone or somebody revoked the
 * privilege, is no permission: it is not listed, and forgotten by the next
 * call that adds or removes one.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "lib/stringinfo.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/builtins.h"

#include "pg_sqs.h"
#include "attribute.h"
#include "sql.h"

#define MAX_LABEL 80
#define MAX_ACTIONS 7

typedef struct Action
{
	const char *name;
	const char *privileges;		/* on the queue's table, as an array */
} Action;

static const Action actions[] = {
	{"SendMessage", "{INSERT}"},
	{"ReceiveMessage", "{SELECT,UPDATE}"},
	{"DeleteMessage", "{DELETE}"},
	{"ChangeMessageVisibility", "{UPDATE}"},
	{"GetQueueAttributes", "{SELECT}"},
	{"GetQueueUrl", "{SELECT}"},
	{"ListDeadLetterSourceQueues", "{SELECT}"},
	{"*", "{SELECT,INSERT,UPDATE,DELETE}"}
};

/*
 * The permissions of queue $1 whose table has OID $2 that are in effect, with
 * the role's present name and OID.
 */
#define EFFECTIVE_PERMISSIONS \
	"SELECT p.label, coalesce(r.rolname, 'public') AS role," \
	" coalesce(r.oid, 0::oid) AS grantee, p.action, p.privileges, p.ctid" \
	" FROM sqs.permission p JOIN pg_class c ON c.oid = $2::oid" \
	" LEFT JOIN pg_roles r ON CASE WHEN p.table_oid = c.oid" \
	" THEN r.oid = p.role_oid ELSE r.rolname = p.role END" \
	" WHERE p.queue_id = $1::int4" \
	" AND (r.oid IS NOT NULL OR p.role = 'public')" \
	" AND NOT EXISTS (SELECT FROM unnest(p.privileges) needed" \
	" WHERE NOT EXISTS (SELECT" \
	" FROM aclexplode(coalesce(c.relacl, acldefault('r', c.relowner))) a" \
	" WHERE a.grantee = coalesce(r.oid, 0::oid)" \
	" AND a.privilege_type = needed))"

PG_FUNCTION_INFO_V1(sqs_add_permission);
PG_FUNCTION_INFO_V1(sqs_remove_permission);
PG_FUNCTION_INFO_V1(sqs_list_permissions);

/* Raises the error for a label that cannot be. */
pg_noreturn static void
report_label(const char *label, const char *reason)
{
	sqs_error(ERRCODE_SQS_INVALID_PARAMETER_VALUE, NULL,
			  "Value %s for parameter Label is invalid. Reason: %s",
			  excerpt(label, strlen(label)), reason);
}

/* Reads the label; it has the form of a queue's name. */
static char *
parse_label(FunctionCallInfo fcinfo)
{
	char	   *label = string_argument(fcinfo, 1);

	if (label == NULL)
		report_missing_parameter("Label");
	if (!queue_name_is_valid(label, false))
		report_label(label, psprintf("Can only include alphanumeric characters, hyphens, or underscores. 1 to %d in length.",
									 MAX_LABEL));
	return label;
}

/* Reads an array of strings that must have one at least. */
static char **
parse_array(FunctionCallInfo fcinfo, int arg, const char *parameter, int *n)
{
	Datum	   *values = array_argument(fcinfo, arg, parameter, n);
	char	  **strings;

	if (*n == 0)
		report_missing_parameter(parameter);
	strings = palloc(sizeof(char *) * *n);
	for (int i = 0; i < *n; i++)
		strings[i] = string_element(values[i]);
	return strings;
}

/* Finds an action that can be granted. */
static const Action *
find_action(const char *name)
{
	for (int i = 0; i < lengthof(actions); i++)
		if (strcmp(actions[i].name, name) == 0)
			return &actions[i];
	sqs_error(ERRCODE_SQS_INVALID_PARAMETER_VALUE,
			  "Actions that can be granted: SendMessage, ReceiveMessage, DeleteMessage, ChangeMessageVisibility, GetQueueAttributes, GetQueueUrl, ListDeadLetterSourceQueues, *.",
			  "Value SQS:%s for parameter ActionName is invalid. Reason: Only the queue owner is allowed to invoke this action.",
			  excerpt(name, strlen(name)));
}

/* Refuses too many actions, and those that cannot be granted. */
static void
check_actions(char **names, int n)
{
	for (int i = 0; i < n; i++)
		(void) find_action(names[i]);
	if (n > MAX_ACTIONS)
		sqs_error(ERRCODE_SQS_OVER_LIMIT,
				  "The action * stands for all.",
				  "%d Actions were found, maximum allowed is %d.",
				  n, MAX_ACTIONS);
}

/* OID of a role by name; 0 = public. */
static Oid
find_role(const char *name)
{
	Oid			role;

	if (strcmp(name, "public") == 0)
		return ACL_ID_PUBLIC;
	role = get_role_oid(name, true);
	if (!OidIsValid(role))
		ereport(ERROR,
				errcode(ERRCODE_UNDEFINED_OBJECT),
				errmsg("role \"%s\" does not exist",
					   excerpt(name, strlen(name))),
				errhint("Roles are those of this server; \"public\" is everybody."));
	return role;
}

/* Fills in the parameters of EFFECTIVE_PERMISSIONS. */
static void
fill_args(const char **args, const Queue *queue)
{
	args[0] = psprintf("%d", queue->id);
	args[1] = psprintf("%u", queue->relid);
}

/* Forgets the permissions of a queue that are not in effect. */
static void
forget_ineffective(const Queue *queue)
{
	const char *args[2];

	fill_args(args, queue);
	sql_run(SQL_ROW,
			"DELETE FROM sqs.permission WHERE queue_id = $1::int4"
			" AND ctid NOT IN (SELECT ctid FROM (" EFFECTIVE_PERMISSIONS ") e)",
			2, args);
}

/* Whether a queue has a permission of this label. */
static bool
label_exists(const Queue *queue, const char *label)
{
	const char *args[2];

	args[0] = psprintf("%d", queue->id);
	args[1] = label;
	return sql_run(SQL_ROW,
				   "SELECT FROM sqs.permission WHERE queue_id = $1::int4"
				   " AND label = $2", 2, args).rows > 0;
}

/* Notes one permission; one that is there already is left alone. */
static void
note_permission(const Queue *queue, const char *label, const char *role,
				const Action *action)
{
	const char *args[7];

	args[0] = psprintf("%d", queue->id);
	args[1] = label;
	args[2] = role;
	args[3] = action->name;
	args[4] = action->privileges;
	args[5] = psprintf("%u", find_role(role));
	args[6] = psprintf("%u", queue->relid);
	sql_run(SQL_ROW,
			"INSERT INTO sqs.permission"
			" (queue_id, label, role, action, privileges, role_oid, table_oid)"
			" SELECT $1::int4, $2, $3, $4, $5::text[], $6::oid, $7::oid"
			" WHERE NOT EXISTS (SELECT FROM sqs.permission"
			" WHERE queue_id = $1::int4 AND label = $2 AND role = $3"
			" AND action = $4)", 7, args);
}

/* A role as a GRANT names it. */
static const char *
quote_role(const char *role)
{
	return strcmp(role, "public") == 0 ? "PUBLIC" : quote_identifier(role);
}

/* The privileges of an action as a GRANT names them: without the braces. */
static char *
privilege_list(const Action *action)
{
	return pnstrdup(action->privileges + 1, strlen(action->privileges) - 2);
}

/* sqs_add_permission(queue_name, label, roles, actions) */
Datum
sqs_add_permission(PG_FUNCTION_ARGS)
{
	Queue		queue;
	char	   *label;
	char	  **roles;
	char	  **names;
	int			nroles;
	int			nactions;

	queue_get_to_change(fcinfo, "sqs_add_permission()", &queue);
	label = parse_label(fcinfo);
	roles = parse_array(fcinfo, 2, "Roles", &nroles);
	names = parse_array(fcinfo, 3, "Actions", &nactions);
	check_actions(names, nactions);
	forget_ineffective(&queue);
	if (label_exists(&queue, label))
		report_label(label, "Already exists.");
	for (int r = 0; r < nroles; r++)
		for (int a = 0; a < nactions; a++)
		{
			const Action *action = find_action(names[a]);

			note_permission(&queue, label, roles[r], action);
			sql_run(SQL_DDL, psprintf("GRANT %s ON sqs.queue_%d TO %s",
									  privilege_list(action), queue.id,
									  quote_role(roles[r])), 0, NULL);
		}
	queue_modified(queue.id);
	PG_RETURN_VOID();
}

/*
 * The privileges that a label alone grants, with the role.  Not those of the
 * table's owner, whose own are not ours to revoke.
 */
static SqlResult
find_revocable(const Queue *queue, const char *label)
{
	const char *args[3];

	fill_args(args, queue);
	args[2] = label;
	return sql_run(SQL_ROW,
				   "WITH e AS (SELECT label, role, grantee, unnest(privileges) AS privilege"
				   " FROM (" EFFECTIVE_PERMISSIONS ") e)"
				   " SELECT DISTINCT e.role, e.privilege FROM e"
				   " WHERE e.label = $3"
				   " AND e.grantee <> (SELECT relowner FROM pg_class WHERE oid = $2::oid)"
				   " AND NOT EXISTS (SELECT FROM e o WHERE o.label <> $3"
				   " AND o.grantee = e.grantee AND o.privilege = e.privilege)",
				   3, args);
}

/* sqs_remove_permission(queue_name, label) */
Datum
sqs_remove_permission(PG_FUNCTION_ARGS)
{
	Queue		queue;
	char	   *label;
	SqlResult	revocable;
	const char *args[2];

	queue_get_to_change(fcinfo, "sqs_remove_permission()", &queue);
	label = parse_label(fcinfo);
	forget_ineffective(&queue);
	if (!label_exists(&queue, label))
		report_label(label, "can't find label.");
	revocable = find_revocable(&queue, label);
	for (int i = 0; i < revocable.rows; i++)
		sql_run(SQL_DDL, psprintf("REVOKE %s ON sqs.queue_%d FROM %s",
								  sql_value(&revocable, i, 1), queue.id,
								  quote_role(sql_value(&revocable, i, 0))),
				0, NULL);
	args[0] = psprintf("%d", queue.id);
	args[1] = label;
	sql_run(SQL_ROW,
			"DELETE FROM sqs.permission WHERE queue_id = $1::int4"
			" AND label = $2", 2, args);
	queue_modified(queue.id);
	PG_RETURN_VOID();
}

/* sqs_list_permissions(queue_name) */
Datum
sqs_list_permissions(PG_FUNCTION_ARGS)
{
	Queue		queue;
	const char *args[2];
	SqlResult	list;

	catalog_get(text_argument(fcinfo, 0), &queue);
	check_queue_privilege(&queue, ACL_SELECT);
	fill_args(args, &queue);
	list = sql_run(SQL_LIST,
				   "SELECT label, role, action FROM (" EFFECTIVE_PERMISSIONS ") e"
				   " ORDER BY label, role COLLATE \"C\", action", 2, args);
	result_begin(fcinfo, 3);
	for (int i = 0; i < list.rows; i++)
	{
		Datum		values[3];
		bool		nulls[3] = {false, false, false};

		for (int c = 0; c < 3; c++)
			values[c] = CStringGetTextDatum(sql_value(&list, i, c));
		result_row(fcinfo, values, nulls);
	}
	PG_RETURN_NULL();
}
