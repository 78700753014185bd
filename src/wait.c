/*-------------------------------------------------------------------------
 *
 * wait.c
 *	  Long polling: sleeping until a queue is worth another look.
 *
 * A receive that found nothing sleeps and looks again, for as long as it was
 * told to wait:
 *
 *		wait_begin(&state, relid);
 *		for (;;)
 *		{
 *			wait_prepare(&state);
 *			... take clock and snapshot, scan; leave if something was found ...
 *			if (!wait_sleep(&state, deadline, next_due))
 *				break;
 *		}
 *		wait_end(&state);
 *
 * A waiter is in the list of the queue's slot.  A commit, once it has
 * reported, wakes as many as the messages it made receivable, longest waiting
 * first, and sees to it that someone will look when its next message becomes
 * due.  To look is a waiter's duty:
 *
 *		Whenever a message is or becomes due, and there are waiters, one of
 *		them is woken, or looks with a snapshot that has the message, or will
 *		look by itself no later than that (Waiter.due).
 *
 * So a waiter is in the list before it takes its snapshot, one that is woken
 * while it looks looks again, and one that leaves passes on what it had not
 * done: a wake it has not followed, and the moment it would have looked.
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
enlist(QueueSlot *slot)
{
	Waiter	   *me = my_waiter();

	me->slot = shmem_index(slot);
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

/* Starts a wait on the queue of a table. */
void
wait_begin(WaitState *state, Oid relid)
{
	QueueSlot  *slot = NULL;

	state->nap = FIRST_NAP;
	if (wait_level == 0 && shmem_find_or_create(relid) >= 0)
		slot = shmem_lock_queue(relid);
	state->enlisted = slot != NULL;
	if (slot == NULL)
		return;
	enlist(slot);
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

/*
 * Sees to it that a waiter of a locked slot will look when a message becomes
 * due.  One that sleeps no longer than that will.  One that was woken already
 * will look before it sleeps again; else the last is woken, which has the
 * longest to wait for a message of its own.
 */
static void
cover_due(QueueSlot *slot, TimestampTz due, int *woken, int *n)
{
	int			best = slot->last_waiter;

	if (due == DT_NOEND || best < 0)
		return;
	for (int i = slot->first_waiter; i >= 0; i = shmem_waiters[i].next)
	{
		Waiter	   *waiter = &shmem_waiters[i];

		if (!waiter->woken && !waiter->looking && waiter->due <= due)
			return;
		if (waiter->woken)
			best = i;
	}
	shmem_waiters[best].due = Min(shmem_waiters[best].due, due);
	if (!shmem_waiters[best].woken)
		wake_one(best, woken, n);
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
	slot->first_waiter = slot->last_waiter = -1;
}

/* Ends the wait of this session, and passes on what it had not done. */
static void
leave(void)
{
	QueueSlot  *slot = lock_my_slot();

	wait_level = 0;
	if (slot == NULL)
		return;
	delist(slot);
	wait_wake_unlock(slot, my_waiter()->woken ? 1 : 0, my_waiter()->due);
}

/* Ends the wait of a transaction of this level, or of one inside it. */
void
wait_release(int level)
{
	if (wait_level > 0 && wait_level >= level)
		leave();
}

/* Ends a wait that was begun, whatever it found. */
void
wait_end(WaitState *state)
{
	if (state->enlisted)
		leave();
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

/* Sets when this session will look by itself; false if it must do so now. */
static bool
set_due(TimestampTz next_due, TimestampTz now, TimestampTz *until)
{
	QueueSlot  *slot = lock_my_slot();
	Waiter	   *me = my_waiter();
	bool		woken;

	if (slot == NULL)
		return false;
	woken = me->woken;
	if (!woken)
	{
		me->looking = false;
		me->due = next_due;
		if (cursor_is_pinned(slot))
			me->due = Min(next_due, now + PREPARED_NAP);
		*until = me->due;
	}
	LWLockRelease(&slot->lock);
	return !woken;
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
