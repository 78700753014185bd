/*-------------------------------------------------------------------------
 *
 * catalog.c
 *	  The queues of sqs.queue as this session remembers them.
 *
 * Every call names its queue, so the row of sqs.queue and the OIDs of the
 * queue's table and indexes are kept by name.  A change of sqs.queue fires
 * sqs.queue_changed(), which sends a relcache invalidation for sqs.queue: all
 * that is remembered is dropped, here and in every other session, with the
 * change's transaction.  A change of a queue's table drops that queue only.
 *
 * The callback may come at any catalog access: it only clears flags.  Callers
 * get copies, and check them again once they hold the table's lock
 * (catalog_is_current), since a lock is what makes invalidations arrive.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relation.h"
#include "catalog/namespace.h"
#include "catalog/pg_am.h"
#include "catalog/pg_class.h"
#include "catalog/pg_index.h"
#include "catalog/pg_type.h"
#include "commands/trigger.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/hsearch.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#include "compat.h"
#include "pg_sqs.h"
#include "storage.h"

#define CACHE_SIZE 10000		/* queues remembered at most */
#define NOT_NULL_COLUMNS 6		/* of a queue's table, as we make it */

typedef struct CacheEntry
{
	char		name[SQS_MAX_NAME + 1]; /* hash key */
	bool		valid;
	Queue		queue;
} CacheEntry;

typedef struct RelidEntry
{
	Oid			relid;			/* hash key */
	CacheEntry *entry;
} RelidEntry;

static HTAB *by_name = NULL;
static HTAB *by_relid = NULL;
static CacheEntry *last_used = NULL;	/* in by_name */
static Oid	catalog_relid = InvalidOid; /* sqs.queue */
static Oid	owner_of_catalog = InvalidOid;
static bool catalog_valid = false;	/* the two above are */
static uint64 generation = 0;	/* counts changes of sqs.queue */
static uint64 invalidations = 0;	/* of relations, that we heard of */

PG_FUNCTION_INFO_V1(sqs_queue_changed);

/* Forgets every queue. */
static void
forget_all(void)
{
	HASH_SEQ_STATUS seq;
	CacheEntry *entry;

	catalog_valid = false;
	generation++;
	if (by_name == NULL)
		return;
	hash_seq_init(&seq, by_name);
	while ((entry = hash_seq_search(&seq)) != NULL)
		entry->valid = false;
}

/* Relcache callback: something about a relation changed. */
static void
relation_changed(Datum arg, Oid relid)
{
	RelidEntry *found;

	invalidations++;
	if (relid == InvalidOid || relid == catalog_relid)
		forget_all();
	else if (by_relid != NULL)
	{
		found = hash_search(by_relid, &relid, HASH_FIND, NULL);
		if (found != NULL)
			found->entry->valid = false;
	}
}

/* Registers the callback, once in a process's life. */
void
catalog_init(void)
{
	CacheRegisterRelcacheCallback(relation_changed, (Datum) 0);
}

/* Makes the two hash tables. */
static void
create_cache(void)
{
	HASHCTL		names = {0};
	HASHCTL		relids = {0};

	names.keysize = SQS_MAX_NAME + 1;
	names.entrysize = sizeof(CacheEntry);
	names.hcxt = CacheMemoryContext;
	by_name = hash_create("pg_sqs queues by name", 64, &names,
						  HASH_ELEM | HASH_STRINGS | HASH_CONTEXT);
	relids.keysize = sizeof(Oid);
	relids.entrysize = sizeof(RelidEntry);
	relids.hcxt = CacheMemoryContext;
	by_relid = hash_create("pg_sqs queues by table", 64, &relids,
						   HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
}

/* OID of a relation in schema sqs, or InvalidOid. */
Oid
catalog_relation(const char *name)
{
	Oid			schema = get_namespace_oid(SQS_SCHEMA, true);

	return OidIsValid(schema) ? get_relname_relid(name, schema) : InvalidOid;
}

/* OID of the table of queue N, or InvalidOid. */
Oid
catalog_queue_table(int32 id)
{
	char		name[NAMEDATALEN];

	snprintf(name, sizeof(name), "queue_%d", id);
	return catalog_relation(name);
}

/* The owner of a table; InvalidOid if it is gone. */
Oid
catalog_table_owner(Oid relid)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	Oid			owner;

	if (!HeapTupleIsValid(tuple))
		return InvalidOid;
	owner = ((Form_pg_class) GETSTRUCT(tuple))->relowner;
	ReleaseSysCache(tuple);
	return owner;
}

/* A number that changes when anything in sqs.queue does. */
uint64
catalog_generation(void)
{
	return generation;
}

/* Finds sqs.queue and its index; an error where the extension is not there. */
static void
find_catalog(void)
{
	Oid			relid = catalog_relation("queue");

	if (!OidIsValid(relid))
		ereport(ERROR,
				errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				errmsg("extension \"pg_sqs\" is not installed in this database"),
				errhint("Run CREATE EXTENSION pg_sqs."));
	owner_of_catalog = catalog_table_owner(relid);
	catalog_relid = relid;
	catalog_valid = true;
	worker_announce_use();
}

/* The owner of sqs.queue. */
Oid
catalog_owner(void)
{
	if (!catalog_valid)
		find_catalog();
	return owner_of_catalog;
}

/* Whether an index is ours on (visible_at, id). */
static bool
is_due_index(Relation index)
{
	Form_pg_index form = index->rd_index;

	return form->indnkeyatts == 2 && form->indnatts == 2 &&
		form->indkey.values[0] == Anum_message_visible_at &&
		form->indkey.values[1] == Anum_message_id &&
		form->indisvalid && index->rd_rel->relam == BTREE_AM_OID &&
		RelationGetIndexPredicate(index) == NIL &&
		index->rd_indoption[0] == 0 && index->rd_indoption[1] == 0;
}

/* How many columns must not be null. */
static int
count_not_null(TupleDesc desc)
{
	int			n = 0;

	for (int i = 0; i < desc->natts; i++)
		n += TupleDescAttr(desc, i)->attnotnull ? 1 : 0;
	return n;
}

/* Whether anything but a plain write is due when a row changes. */
static bool
needs_executor(Relation rel)
{
	TupleConstr *constr = rel->rd_att->constr;

	return rel->trigdesc != NULL || rel->rd_rel->relrowsecurity ||
		rel->rd_rel->relispartition ||
		rel->rd_rel->relreplident != REPLICA_IDENTITY_DEFAULT ||
		count_not_null(rel->rd_att) > NOT_NULL_COLUMNS ||
		(constr != NULL &&
		 (constr->num_check > 0 || constr->has_generated_stored));
}

/* Notes the indexes of a queue's table, and whether there are others. */
static void
load_indexes(Relation rel, Queue *queue)
{
	List	   *indexes = RelationGetIndexList(rel);
	ListCell   *lc;

	queue->plain = !needs_executor(rel);
	queue->pkey = InvalidOid;
	queue->due_index = InvalidOid;
	foreach(lc, indexes)
	{
		Relation	index = index_open(lfirst_oid(lc), AccessShareLock);
		Form_pg_index form = index->rd_index;

		if (form->indisprimary && form->indisvalid && form->indnatts == 1 &&
			form->indkey.values[0] == Anum_message_id)
			queue->pkey = RelationGetRelid(index);
		else if (!OidIsValid(queue->due_index) && is_due_index(index))
			queue->due_index = RelationGetRelid(index);
		else
			queue->plain = false;
		index_close(index, AccessShareLock);
	}
	list_free(indexes);
	if (!OidIsValid(queue->pkey) || !OidIsValid(queue->due_index))
		ereport(ERROR,
				errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				errmsg("table of queue \"%s\" lacks an index", queue->name),
				errhint("Create a primary key on (id) and an index on (visible_at, id) of sqs.queue_%d.",
						queue->id));
}

/*
 * Fills in what there is to know of a queue's table; false if it is gone.  To
 * look at an index can run functions its owner chose (in its predicate), so
 * that is done as the owner.
 */
static bool
load_table(Queue *queue)
{
	char		name[NAMEDATALEN];
	Relation	rel;
	Identity	own;

	snprintf(name, sizeof(name), "queue_%d_seq", queue->id);
	queue->sequence = catalog_relation(name);
	queue->relid = catalog_queue_table(queue->id);
	if (!OidIsValid(queue->relid) || !OidIsValid(queue->sequence))
		return false;
	rel = try_relation_open(queue->relid, AccessShareLock);
	if (rel == NULL)
		return false;
	queue->owner = rel->rd_rel->relowner;
	queue->row_security = rel->rd_rel->relrowsecurity;
	storage_check_layout(rel, queue->name);
	identity_assume(queue->owner, &own);
	load_indexes(rel, queue);
	identity_resume(&own);
	relation_close(rel, AccessShareLock);
	return true;
}

/*
 * Remembers a queue read from the catalog, as valid unless anything changed
 * while it was read.  What was dropped is not taken out one by one; instead all
 * is forgotten when it has become too much.
 */
static void
remember_queue(const Queue *queue)
{
	CacheEntry *entry;
	RelidEntry *by_oid;

	if (hash_get_num_entries(by_relid) >= CACHE_SIZE)
	{
		hash_destroy(by_name);
		hash_destroy(by_relid);
		last_used = NULL;
		create_cache();
	}
	entry = hash_search(by_name, queue->name, HASH_ENTER, NULL);
	entry->valid = false;
	entry->queue = *queue;
	by_oid = hash_search(by_relid, &queue->relid, HASH_ENTER, NULL);
	by_oid->entry = entry;
	entry->valid = queue->invalidations == invalidations;
}

/* What is remembered of a queue, if anything; most often the one used last. */
static CacheEntry *
find_entry(const char *name)
{
	if (last_used == NULL || strcmp(last_used->name, name) != 0)
		last_used = hash_search(by_name, name, HASH_FIND, NULL);
	return last_used;
}

/* Finds a queue by name; false if there is none. */
bool
catalog_find(const char *name, Queue *queue)
{
	CacheEntry *entry;

	if (strlen(name) > SQS_MAX_NAME)
		return false;
	if (by_name == NULL)
		create_cache();
	entry = find_entry(name);
	if (entry != NULL && entry->valid)
	{
		*queue = entry->queue;
		return true;
	}
	if (!catalog_valid)
		find_catalog();
	for (;;)
	{
		queue->invalidations = invalidations;
		if (!catalog_read(name, queue))
			return false;
		if (load_table(queue))
			break;
		/* a queue that was just deleted may have been made again */
		if (queue->invalidations == invalidations)
			return false;
	}
	remember_queue(queue);
	return true;
}

/* Whether nothing about a queue changed since it was found. */
bool
catalog_is_current(const Queue *queue)
{
	CacheEntry *entry = find_entry(queue->name);

	return entry != NULL && entry->valid &&
		entry->queue.invalidations == queue->invalidations;
}

/* Raises the error for a queue that is not there; NULL = its name is not known. */
void
report_missing_queue(const char *name)
{
	const char *hint = "SELECT sqs_list_queues() shows the queues there are; sqs_create_queue() makes one.";

	if (name != NULL && strpbrk(name, "/:") != NULL)
		hint = "Give the name of the queue alone, not its URL or ARN.";
	if (name != NULL)
		hint = psprintf("There is no queue \"%s\". %s", excerpt(name, strlen(name)),
						hint);
	sqs_error(ERRCODE_SQS_NON_EXISTENT_QUEUE, hint,
			  "The specified queue does not exist.");
}

/* Finds the queue that a call names, or raises its error. */
void
catalog_get(text *name, Queue *queue)
{
	char		buffer[SQS_MAX_NAME + 1];
	int			length;

	if (name == NULL)
		report_missing_parameter("QueueName");
	length = VARSIZE_ANY_EXHDR(name);
	if (length > SQS_MAX_NAME)
		report_missing_queue(text_to_cstring(name));
	memcpy(buffer, VARDATA_ANY(name), length);
	buffer[length] = '\0';
	if (!catalog_find(buffer, queue))
		report_missing_queue(buffer);
}

/* The trigger on sqs.queue: tells every session to forget the queues. */
Datum
sqs_queue_changed(PG_FUNCTION_ARGS)
{
	if (!CALLED_AS_TRIGGER(fcinfo))
		ereport(ERROR,
				errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				errmsg("function \"%s\" was not called by trigger manager",
					   "queue_changed"));
	CacheInvalidateRelcache(((TriggerData *) fcinfo->context)->tg_relation);
	PG_RETURN_POINTER(NULL);
}
