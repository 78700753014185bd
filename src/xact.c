/*-------------------------------------------------------------------------
 *
 * xact.c
 *	  What a transaction did to queues, told to shared memory when it ends.
 *
 * Effects are kept for each queue and each level of nested transactions, in
 * one list with the innermost level first.  They are made before a row is
 * touched, so whatever can fail has been done by then: the callbacks at the
 * end of a transaction neither fail nor allocate.  They run when the outcome
 * is visible to others, and find the slot of a queue anew: whoever made it
 * meanwhile looks from the very start.
 *
 *		commit			reports at_commit, adds metrics, wakes waiters
 *		abort			reports at_abort, of each level on its own; posts the
 *						receives it took back (lost.c)
 *		end of a level	merges it into its parent
 *		prepare			reports both, and leaves a pin in each slot
 *
 * Receives that do not wait for the disk: a lease lost in a crash only means
 * that its message comes again early.  So a transaction commits as if
 * synchronous_commit were off if no WAL but that of such receives was
 * written since the first of them, and no transaction id assigned before it.
 * What others wrote, in the same statement, too, shows in XactLastRecEnd.
 * Of what a receive itself writes, moves to a dead-letter queue wait for the
 * disk, and all that triggers may see; the removal of a message past its
 * retention does not, since it stays past it.
 *
 * Nothing here is shared but what the other files guard.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/namespace.h"
#include "catalog/objectaccess.h"
#include "catalog/pg_class.h"
#include "miscadmin.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

#include "compat.h"
#include "shmem.h"

static Effects *effects_list = NULL;	/* innermost level first */
static Effects *free_effects = NULL;	/* of levels that ended, for reuse */

static object_access_hook_type prev_object_access_hook = NULL;

/* what receives of this transaction wrote */
static struct
{
	bool		any;			/* there was one */
	bool		sole;			/* nobody else wrote WAL */
	XLogRecPtr	end;			/* of WAL after the last one */
}			receives;

/* Whether the first effects of a list belong to a level. */
static inline bool
is_of_level(const Effects *effects, int level)
{
	return effects != NULL && effects->level == level;
}

/* The effects of a level on a queue, in a list that begins with that level. */
static Effects *
find_effects(Effects *list, int level, Oid relid)
{
	while (is_of_level(list, level) && list->relid != relid)
		list = list->next;
	return is_of_level(list, level) ? list : NULL;
}

/* Makes effects that are none yet. */
static Effects *
make_effects(Oid relid, int level)
{
	Effects    *effects = free_effects;

	if (effects != NULL)
		free_effects = effects->next;
	else
		effects = MemoryContextAlloc(TopTransactionContext, sizeof(Effects));
	memset(effects, 0, sizeof(Effects));
	effects->relid = relid;
	effects->at_commit = effects->at_abort = effects->own = POSITION_MAX;
	effects->commit.due = effects->abort.due = DT_NOEND;
	effects->level = level;
	effects->pin = -1;
	effects->next = effects_list;
	effects_list = effects;
	return effects;
}

/* The effects of the current (sub)transaction on the queue of a table. */
Effects *
xact_effects(Oid relid)
{
	int			level = GetCurrentTransactionNestLevel();
	Effects    *effects = find_effects(effects_list, level, relid);

	if (effects != NULL)
		return effects;
	(void) shmem_find_or_create(relid);
	return make_effects(relid, level);
}

/* Notes positions; POSITION_MAX for one that is none. */
void
effects_note(Effects *effects, Position at_commit, Position at_abort)
{
	effects->at_commit = position_min(effects->at_commit, at_commit);
	effects->at_abort = position_min(effects->at_abort, at_abort);
	effects->own = position_min(effects->own, at_commit);
}

/* Adds a message to those to wake waiters for. */
void
wakes_add(Wakes *wakes, TimestampTz visible_at, TimestampTz now)
{
	if (visible_at <= now)
		wakes->receivable++;
	else
		wakes->due = Min(wakes->due, visible_at);
}

/* Whether a table may be a queue's: those have a schema of their own. */
static bool
may_be_queue(Oid relid)
{
	Oid			schema = get_namespace_oid(SQS_SCHEMA, true);

	return OidIsValid(schema) && get_rel_namespace(relid) == schema;
}

/*
 * Called when the session does something to an object.  Notes that commit ends
 * a queue whose table is dropped, be it with its schema or the extension; and
 * that abort brings back all messages of one whose table is truncated (also
 * where it has no slot yet: this transaction may be the one to make it).
 */
static void
object_accessed(ObjectAccessType access, Oid classid, Oid objid, int subid,
				void *arg)
{
	int			level = GetCurrentTransactionNestLevel();
	Effects    *effects;

	if (prev_object_access_hook)
		prev_object_access_hook(access, classid, objid, subid, arg);
	if (classid != RelationRelationId || subid != 0 ||
		!((access == OAT_TRUNCATE && may_be_queue(objid)) ||
		  (access == OAT_DROP && shmem_find(objid) >= 0)))
		return;
	effects = find_effects(effects_list, level, objid);
	if (effects == NULL)
		effects = make_effects(objid, level);
	if (access == OAT_DROP)
		effects->dropped = true;
	else
	{
		effects_note(effects, POSITION_MAX, POSITION_MIN);
		effects->abort.receivable++;
	}
}

/*
 * The lowest position where this transaction itself put a message, and no
 * receive of its own has passed since: the cursor knows nothing of it.
 */
Position
xact_lowest_own(Oid relid)
{
	Position	lowest = POSITION_MAX;

	for (const Effects *e = effects_list; e != NULL; e = e->next)
		if (e->relid == relid)
			lowest = position_min(lowest, e->own);
	return lowest;
}

/*
 * Notes that a receive walked from there to a position and left nothing to be
 * received; or else one transaction that sends and receives many messages
 * would walk all of them again each time.
 */
void
xact_own_walked(Oid relid, Position walked_to)
{
	for (Effects *e = effects_list; e != NULL; e = e->next)
		if (e->relid == relid && position_before(e->own, walked_to))
			e->own = walked_to;
}

/* Sums up what this transaction will add to metrics; false if it did nothing. */
bool
xact_own_metrics(Oid relid, int64 *values)
{
	bool		any = false;

	memset(values, 0, METRIC_COUNT * sizeof(int64));
	for (const Effects *e = effects_list; e != NULL; e = e->next)
	{
		if (e->relid != relid)
			continue;
		any = true;
		for (int m = 0; m < METRIC_COUNT; m++)
			values[m] += e->metrics[m];
	}
	return any;
}

/* Tells of a commit. */
static void
report_commit(const Effects *effects)
{
	QueueSlot  *slot;

	if (effects->dropped)
	{
		shmem_drop(effects->relid);
		return;
	}
	slot = shmem_lock_queue(effects->relid);
	if (slot == NULL)
		return;
	cursor_lower(slot, effects->at_commit);
	shmem_add_metrics(slot, effects->metrics);
	wait_wake_unlock(slot, effects->commit.receivable, effects->commit.due);
}

/* Tells of an abort, of a transaction or of a level of it. */
static void
report_abort(const Effects *effects)
{
	QueueSlot  *slot;
	bool		lost;

	if (effects->pin >= 0)
		shmem_release_pin(effects->pin);
	lost = lost_report(effects);
	slot = shmem_lock_queue(effects->relid);
	if (slot == NULL)
		return;
	slot->lost |= lost;
	cursor_lower(slot, effects->at_abort);
	wait_wake_unlock(slot, effects->abort.receivable, effects->abort.due);
}

/* Takes a pin for a transaction to be prepared. */
static void
reserve_pin(Effects *effects)
{
	if (effects->pin < 0 && shmem_find(effects->relid) >= 0)
		effects->pin = shmem_reserve_pin();
}

/*
 * Tells of a transaction that was prepared, and what it may yet do.  It may
 * end at any time from now on, and nobody is told: a waiter must look often.
 */
static void
report_prepare(const Effects *effects)
{
	Position	position = position_min(effects->at_commit, effects->at_abort);
	QueueSlot  *slot = shmem_lock_queue(effects->relid);

	if (slot == NULL)
	{
		if (effects->pin >= 0)
			shmem_release_pin(effects->pin);
		return;
	}
	shmem_add_metrics(slot, effects->metrics);
	pin_add(slot, effects->pin, GetTopTransactionIdIfAny(), position,
			effects->commit.receivable + effects->abort.receivable);
	wait_wake_unlock(slot, 0, DT_NOBEGIN);
}

/* Adds some wakes to others. */
static void
merge_wakes(Wakes *into, const Wakes *from)
{
	into->receivable += from->receivable;
	into->due = Min(into->due, from->due);
}

/* Merges the effects of a level that ended into those of its parent. */
static void
merge_effects(Effects *into, Effects *from)
{
	into->at_commit = position_min(into->at_commit, from->at_commit);
	into->at_abort = position_min(into->at_abort, from->at_abort);
	into->own = position_min(into->own, from->own);
	merge_wakes(&into->commit, &from->commit);
	merge_wakes(&into->abort, &from->abort);
	into->dropped |= from->dropped;
	for (int m = 0; m < METRIC_COUNT; m++)
		into->metrics[m] += from->metrics[m];
	lost_merge(into, from);
}

/* Keeps effects for reuse. */
static void
free_one(Effects *effects)
{
	effects->next = free_effects;
	free_effects = effects;
}

/* Ends a level well: its effects are the parent's. */
static void
commit_level(int level)
{
	Effects    *list = effects_list;
	Effects    *parents = list;

	while (is_of_level(parents, level))
		parents = parents->next;
	effects_list = parents;
	while (list != parents)
	{
		Effects    *effects = list;
		Effects    *parent = find_effects(parents, level - 1, effects->relid);

		list = list->next;
		if (parent != NULL)
		{
			merge_effects(parent, effects);
			free_one(effects);
			continue;
		}
		effects->level = level - 1;
		effects->next = effects_list;
		effects_list = effects;
	}
}

/* Has what a level took from the levels around it be received again. */
static void
restore_own(const Effects *ended)
{
	for (Effects *e = effects_list; e != NULL; e = e->next)
		if (e->relid == ended->relid)
			e->own = position_min(e->own, ended->at_abort);
}

/* Ends a level badly: tells of it, and forgets it. */
static void
abort_level(int level)
{
	while (effects_list != NULL && effects_list->level >= level)
	{
		Effects    *effects = effects_list;

		effects_list = effects->next;
		report_abort(effects);
		restore_own(effects);
		lost_forget(effects);
		free_one(effects);
	}
}

/* Called at the end of a level. */
static void
end_level(SubXactEvent event, SubTransactionId subid,
		  SubTransactionId parent, void *arg)
{
	int			level = GetCurrentTransactionNestLevel();

	if (event == SUBXACT_EVENT_COMMIT_SUB)
		commit_level(level);
	else if (event == SUBXACT_EVENT_ABORT_SUB)
	{
		abort_level(level);
		cursor_release_cells(level);
		wait_release(level);
	}
}

/* Tells of everything in a way that is given, and forgets it. */
static void
end_effects(void (*report) (const Effects *))
{
	for (const Effects *e = effects_list; e != NULL; e = e->next)
		report(e);
	effects_list = free_effects = NULL;
	lost_end_transaction();
	receives.any = false;
}

/* Spares a commit the wait for the disk, if it has only leases to lose. */
static void
relax_commit(void)
{
	if (receives.any && receives.sole && receives.end == XactLastRecEnd &&
		XactLastRecEnd != 0 && sqs_async_receive &&
		synchronous_commit > SYNCHRONOUS_COMMIT_OFF)
		(void) set_config_option("synchronous_commit", "off", PGC_USERSET,
								 PGC_S_SESSION, GUC_ACTION_LOCAL, true, 0,
								 false);
}

/* Called at the end of a transaction. */
static void
end_transaction(XactEvent event, void *arg)
{
	switch (event)
	{
		case XACT_EVENT_PRE_COMMIT:
			relax_commit();
			break;
		case XACT_EVENT_PRE_PREPARE:
			for (Effects *e = effects_list; e != NULL; e = e->next)
				reserve_pin(e);
			break;
		case XACT_EVENT_COMMIT:
			end_effects(report_commit);
			break;
		case XACT_EVENT_PREPARE:
			end_effects(report_prepare);
			break;
		case XACT_EVENT_ABORT:
			end_effects(report_abort);
			cursor_release_cells(0);
			wait_release(0);
			break;
		default:
			break;
	}
}

/* Sets up what is called when tables are dropped and transactions end. */
void
xact_init(void)
{
	RegisterXactCallback(end_transaction, NULL);
	RegisterSubXactCallback(end_level, NULL);
	if (!process_shared_preload_libraries_in_progress)
		return;
	prev_object_access_hook = object_access_hook;
	object_access_hook = object_accessed;
}

/*
 * Must be called before a receive does anything at all, even to find its
 * queue, and xact_receive_exit after everything.
 */
void
xact_receive_enter(void)
{
	if (!receives.any)
		receives.sole = !TransactionIdIsValid(GetTopTransactionIdIfAny());
	else if (receives.end != XactLastRecEnd)
		receives.sole = false;
	receives.any = true;
	receives.end = XactLastRecEnd;
}

/* only_leases: it wrote nothing but leases that may be lost. */
void
xact_receive_exit(bool only_leases)
{
	receives.end = XactLastRecEnd;
	if (!only_leases)
		receives.sole = false;
}
