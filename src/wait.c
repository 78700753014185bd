/*-------------------------------------------------------------------------
 *
 * wait.c
 *	  Long polling: sleeping until a queue is worth another look.
 *
 * A receive that found nothing sleeps and looks again, for as long as it was
 * told to wait:
 *
 *		wait_begin(&state, relid, true);
 *		for (;;)
 *		{
 *			wait_prepare(&state);
 *			... take clock and snapshot, scan; leave if something was found ...
 *			if (!wait_sleep(&state, deadline, next_due))
 *				break;
 *		}
 *		wait_end(&state, whether there may be more);
 *
 * A waiter is in the list of the queue's slot.  A commit, once it has
 * reported, wakes as many as the messages it made receivable, longest waiting
 * first.  One waiter of a queue, the watcher, looks by itself when the next
 * message becomes due; the others sleep on.  The duty of waiters together is:
 *
 *		Whenever a message is or becomes due, and there are waiters, one of
 *		them is woken, or looks with a snapshot that has the message, or is
 *		the watcher and will look no later than that (Waiter.due).
 *
 * So a waiter is in the list before it takes its snapshot; one that is woken
 * while it looks, looks again; and one that leaves passes on what it has not
 * done: a wake it has not followed to the end, the watch, and the message it
 * saw after its own, for its wake may have been meant for that.  (These rules
 * were model-checked; each is there because a message was missed without.)
 *
 * Of a prepared transaction's end nobody is told, so while a queue has one a
 * waiter looks often.  Without a slot all waiters do: soon at first, then
 * ever more gently.
 *
 * What waiters share is guarded by the lock of their slot; woken is read
 * without it, after the latch was reset.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "storage/latch.h"
#include "storage/proc.h"

#include "compat.h"
#include "shmem.h"

#define FIRST_NAP 10			/* milliseconds between looks, at first */
#define LONGEST_NAP 250			/* and after some doublings */
#define PREPARED_NAP (50 * 1000)	/* microseconds, with prepared ones */
#define LONGEST_SLICE 1000		/* between looks at the client's connection */
#define LEFT_NAP USECS_PER_SEC	/* before a message not taken is looked for */
#define WAKE_AT_ONCE 32			/* latches set after each hold of the lock */

/*
 * As in libpq/libpq.h, which cannot be included without the headers of
 * GSSAPI; the server's development package does not bring them.
 */
extern bool pq_check_connection(void);

static int	wait_level = 0;		/* of the transaction that waits; 0 = none */

/* This session as a waiter. */
static inline Waiter *
my_waiter(void)
{
	return &shmem_waiters[MyProcNumber];
}

/* Adds this session to the waiters of a locked slot. */
static void
enlist(QueueSlot *slot, bool takes)
{
	Waiter	   *me = my_waiter();

	me->slot = shmem_index(slot);
	me->takes = takes;
	me->looking = true;
	me->woken = false;
	me->due = DT_NOEND;
	me->next = -1;
	me->prev = slot->last_waiter;
	if (me->prev >= 0)
		shmem_waiters[me->prev].next = MyProcNumber;
	else
		slot->first_waiter = MyProcNumber;
	slot->last_waiter = MyProcNumber;
}

/* Removes this session from the waiters of a locked slot. */
static void
delist(QueueSlot *slot)
{
	Waiter	   *me = my_waiter();

	if (me->prev >= 0)
		shmem_waiters[me->prev].next = me->next;
	else
		slot->first_waiter = me->next;
	if (me->next >= 0)
		shmem_waiters[me->next].prev = me->prev;
	else
		slot->last_waiter = me->prev;
	if (slot->watcher == MyProcNumber)
		slot->watcher = -1;
	me->slot = -1;
}

/*
 * Locks the slot this session waits on; NULL if it was taken away.  A slot is
 * taken away under its lock, so what is seen there holds.
 */
static QueueSlot *
lock_my_slot(void)
{
	int			index = *(volatile int *) &my_waiter()->slot;
	QueueSlot  *slot;

	if (index < 0)
		return NULL;
	slot = shmem_slot(index);
	LWLockAcquire(&slot->lock, LW_EXCLUSIVE);
	if (my_waiter()->slot >= 0)
		return slot;
	LWLockRelease(&slot->lock);
	return NULL;
}

/*
 * Starts a wait on the queue of a table; takes tells whether a message found
 * will be taken, or only looked at.
 */
void
wait_begin(WaitState *state, Oid relid, bool takes)
{
	QueueSlot  *slot = NULL;

	state->nap = FIRST_NAP;
	if (wait_level == 0 && shmem_find_or_create(relid) >= 0)
		slot = shmem_lock_queue(relid);
	state->enlisted = slot != NULL;
	if (slot == NULL)
		return;
	enlist(slot, takes);
	LWLockRelease(&slot->lock);
	wait_level = GetCurrentTransactionNestLevel();
}

/* Must come before the clock and the snapshot of each look are taken. */
void
wait_prepare(WaitState *state)
{
	QueueSlot  *slot;

	CHECK_FOR_INTERRUPTS();
	if (!state->enlisted)
		return;
	slot = lock_my_slot();
	if (slot == NULL)
	{
		/* the queue was dropped; if there is one again, we poll it */
		state->enlisted = false;
		wait_level = 0;
		return;
	}
	my_waiter()->woken = false;
	my_waiter()->looking = true;
	LWLockRelease(&slot->lock);
}

/* Marks a waiter as one that must look; adds it to those to be woken. */
static void
wake_one(int number, int *woken, int *n)
{
	shmem_waiters[number].woken = true;
	woken[(*n)++] = number;
}

/* Wakes waiters of a locked slot; returns how many messages have none. */
static int
wake_receivers(QueueSlot *slot, int receivable, int *woken, int *n)
{
	for (int i = slot->first_waiter; i >= 0 && receivable > 0 &&
		 *n < WAKE_AT_ONCE; i = shmem_waiters[i].next)
		if (!shmem_waiters[i].woken)
		{
			wake_one(i, woken, n);
			receivable--;
		}
	return receivable;
}

/* Whether the watcher of a locked slot sleeps, and looks by then. */
static bool
is_watched(const QueueSlot *slot, TimestampTz due)
{
	const Waiter *watcher;

	if (slot->watcher < 0)
		return false;
	watcher = &shmem_waiters[slot->watcher];
	return !watcher->looking && !watcher->woken && watcher->due <= due;
}

/*
 * Sees to it that the watcher of a locked slot looks when a message becomes
 * due.  If it is awake, it must look once more, to learn of the message.  The
 * last waiter becomes watcher, for it has to wait longest for a message of
 * its own.
 */
static void
cover_due(QueueSlot *slot, TimestampTz due, int *woken, int *n)
{
	Waiter	   *watcher;

	if (due == DT_NOEND || slot->last_waiter < 0 || is_watched(slot, due))
		return;
	if (slot->watcher < 0)
		slot->watcher = slot->last_waiter;
	watcher = &shmem_waiters[slot->watcher];
	watcher->due = Min(watcher->due, due);
	if (!watcher->woken)
		wake_one(slot->watcher, woken, n);
}

/*
 * Wakes waiters of a locked slot, and unlocks it: one for each message that
 * became receivable, and one if none will look when the next becomes due.
 */
void
wait_wake_unlock(QueueSlot *slot, int receivable, TimestampTz due)
{
	uint64		generation = slot->generation;

	for (;;)
	{
		int			woken[WAKE_AT_ONCE + 1];
		int			n = 0;
		bool		more;

		if (slot->generation == generation)
		{
			receivable = wake_receivers(slot, receivable, woken, &n);
			cover_due(slot, due, woken, &n);
		}
		more = n >= WAKE_AT_ONCE;
		LWLockRelease(&slot->lock);
		for (int i = 0; i < n; i++)
			SetLatch(&GetPGProcByNumber(woken[i])->procLatch);
		if (!more)
			return;
		LWLockAcquire(&slot->lock, LW_EXCLUSIVE);
	}
}

/* Sends away all waiters of a locked slot that is taken from its queue. */
void
wait_detach_all(QueueSlot *slot)
{
	for (int i = slot->first_waiter; i >= 0; i = shmem_waiters[i].next)
	{
		shmem_waiters[i].slot = -1;
		shmem_waiters[i].woken = true;
		SetLatch(&GetPGProcByNumber(i)->procLatch);
	}
	slot->first_waiter = slot->last_waiter = slot->watcher = -1;
}

/* Wakes the first waiter of a locked slot that will take a message. */
static void
wake_taker(QueueSlot *slot)
{
	for (int i = slot->first_waiter; i >= 0; i = shmem_waiters[i].next)
		if (shmem_waiters[i].takes && !shmem_waiters[i].woken)
		{
			shmem_waiters[i].woken = true;
			SetLatch(&GetPGProcByNumber(i)->procLatch);
			break;
		}
}

/*
 * Ends the wait of this session, and passes on what it had not done.  If it
 * failed while it looked, it may have been woken to do so.
 */
static void
leave(bool more, bool failed)
{
	QueueSlot  *slot = lock_my_slot();
	Waiter	   *me = my_waiter();

	wait_level = 0;
	if (slot == NULL)
		return;
	delist(slot);
	if (more && !me->takes)
	{
		/* our caller will take the message; if not, another shall see it */
		wake_taker(slot);
		me->due = Min(me->due, GetCurrentTimestamp() + LEFT_NAP);
		more = false;
	}
	more |= me->woken || (failed && me->looking);
	wait_wake_unlock(slot, more ? 1 : 0, me->due);
}

/* Ends the wait of a transaction that failed, of this level or inside it. */
void
wait_release(int level)
{
	if (wait_level > 0 && wait_level >= level)
		leave(false, true);
}

/*
 * Ends a wait that was begun, whatever it found; more tells whether there may
 * be a message that it saw and did not take.
 */
void
wait_end(WaitState *state, bool more)
{
	if (state->enlisted)
		leave(more, false);
}

/* Ends the session if its client is gone: no one would read the answer. */
static void
check_client(void)
{
	if (MyProcPort == NULL || !WaitEventSetCanReportClosed())
		return;
	if (!pq_check_connection())
	{
		ClientConnectionLost = true;
		InterruptPending = true;
		CHECK_FOR_INTERRUPTS();
	}
}

/* The wait event shown while a session waits for messages. */
static uint32
wait_event(void)
{
	static uint32 event = 0;

	if (event == 0)
		event = WaitEventExtensionNew("SqsWaitForMessage");
	return event;
}

/*
 * Sleeps to a moment, or until woken, if others wake us.  Attentive to
 * cancel, shutdown and a lost client.
 */
static void
sleep_until(TimestampTz until, bool enlisted)
{
	while (!enlisted || !*(volatile bool *) &my_waiter()->woken)
	{
		long		left = TimestampDifferenceMilliseconds(GetCurrentTimestamp(),
														   until);

		if (left <= 0)
			break;
		(void) WaitLatch(MyLatch,
						 WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
						 Min(left, LONGEST_SLICE), wait_event());
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
		check_client();
	}
}

/*
 * Sets when this session will look by itself: at all only if no other does by
 * then.  A watcher that is awake either sees in time what we saw, or was told
 * to look once more.  False if we must look at once.
 */
static bool
set_due(TimestampTz next_due, TimestampTz now, TimestampTz *until)
{
	QueueSlot  *slot = lock_my_slot();
	Waiter	   *me = my_waiter();
	Waiter	   *watcher;

	if (slot == NULL)
		return false;
	if (me->woken)
	{
		LWLockRelease(&slot->lock);
		return false;
	}
	me->looking = false;
	me->due = DT_NOEND;
	if (pin_is_held(slot))
		next_due = Min(next_due, now + PREPARED_NAP);
	watcher = slot->watcher < 0 ? me : &shmem_waiters[slot->watcher];
	if (watcher == me ||
		(!watcher->looking && !watcher->woken && watcher->due > next_due))
	{
		slot->watcher = MyProcNumber;
		me->due = next_due;
	}
	*until = me->due;
	LWLockRelease(&slot->lock);
	return true;
}

/*
 * Sleeps until it is worth looking again; false when the deadline is past,
 * so that the last look is never before it.
 */
bool
wait_sleep(WaitState *state, TimestampTz deadline, TimestampTz next_due)
{
	TimestampTz now = GetCurrentTimestamp();
	TimestampTz until;

	if (now >= deadline)
		return false;
	if (state->enlisted)
	{
		if (set_due(next_due, now, &until))
			sleep_until(Min(deadline, until), true);
		return true;
	}
	until = TimestampTzPlusMilliseconds(now, state->nap);
	state->nap = Min(2 * state->nap, LONGEST_NAP);
	sleep_until(Min(Min(deadline, next_due), until), false);
	return true;
}
