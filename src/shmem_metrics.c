/*-------------------------------------------------------------------------
 *
 * shmem_metrics.c
 *	  The metrics of a queue in its slot of shared memory.
 *
 * A commit adds to them under the slot's lock, and counts itself (changes), so
 * that a count of the messages, which sets the gauges, is known to be out of
 * date.  They are read without the lock.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/timestamp.h"

#include "shmem.h"

/* Adds to the metrics of a queue, whose slot is locked. */
void
shmem_add_metrics(QueueSlot *slot, const int64 *values)
{
	slot->changes++;
	for (int m = 0; m < METRIC_COUNT; m++)
		if (values[m] != 0)
			(void) pg_atomic_fetch_add_u64(&slot->metrics[m], values[m]);
}

/* Reads the metrics of a queue, and since when they count; false = no slot. */
bool
shmem_read_metrics(Oid relid, int64 *values, TimestampTz *since)
{
	int			index = shmem_find(relid);
	QueueSlot  *slot;

	if (index < 0)
		return false;
	slot = shmem_slot(index);
	for (int m = 0; m < METRIC_COUNT; m++)
		values[m] = (int64) pg_atomic_read_u64(&slot->metrics[m]);
	*since = slot->since;
	return shmem_slot_is_of(slot, relid);
}

/* Sets the counters of a queue to zero. */
void
shmem_reset_counters(Oid relid)
{
	QueueSlot  *slot = shmem_lock_queue(relid);

	if (slot == NULL)
		return;
	for (int m = 0; m < METRIC_FIRST_GAUGE; m++)
		pg_atomic_write_u64(&slot->metrics[m], 0);
	slot->since = GetCurrentTimestamp();
	LWLockRelease(&slot->lock);
}

/*
 * Counts commits that changed a queue; 0 if it has no slot.  Without the lock,
 * so the last one may be missing.
 */
uint64
shmem_changes(Oid relid)
{
	int			index = shmem_find(relid);

	return index < 0 ? 0 : ((volatile QueueSlot *) shmem_slot(index))->changes;
}

/*
 * Whether a queue's gauges should be counted: something changed or fell due
 * since they were, and counting may take its part of the time.
 */
bool
shmem_count_is_due(Oid relid, TimestampTz now)
{
	QueueSlot  *slot = shmem_lock_queue(relid);
	bool		due;

	if (slot == NULL)
		return false;
	due = (slot->changes != slot->counted_changes ||
		   now >= slot->counted_due) &&
		now - slot->healed >= SQS_LOOK_FACTOR * slot->heal_cost;
	LWLockRelease(&slot->lock);
	return due;
}

/* Notes, before the count's snapshot, which changes the count will know of. */
uint64
shmem_begin_count(Oid relid)
{
	QueueSlot  *slot = shmem_lock_queue(relid);
	uint64		changes;

	if (slot == NULL)
		return 0;
	changes = slot->changes;
	LWLockRelease(&slot->lock);
	return changes;
}

/*
 * Sets the gauges of a queue (values has the counters, too) as counted, and
 * when the next message that was not due then will be.
 */
void
shmem_set_gauges(Oid relid, const int64 *values, uint64 changes,
				 TimestampTz next_due)
{
	QueueSlot  *slot = shmem_lock_queue(relid);

	if (slot == NULL)
		return;
	slot->counted_changes = changes;
	slot->counted_due = next_due;
	for (int m = METRIC_FIRST_GAUGE; m < METRIC_COUNT; m++)
		pg_atomic_write_u64(&slot->metrics[m], (uint64) values[m]);
	LWLockRelease(&slot->lock);
}
