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
 *		wait_end(&state, found);
 *
 * Without shared memory nobody can wake a sleeper, so it polls: soon at
 * first, then ever more gently.  Either way it sleeps no longer than to the
 * next moment at which a message becomes due, so delays and expiring
 * visibility timeouts are met on time.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/latch.h"

#include "compat.h"
#include "pg_sqs.h"

#define FIRST_NAP 10			/* milliseconds between looks, at first */
#define LONGEST_NAP 250			/* and after some doublings */
#define LONGEST_SLICE 1000		/* between looks at the client's connection */

/*
 * As in libpq/libpq.h, which cannot be included without the headers of
 * GSSAPI; the server's development package does not bring them.
 */
extern bool pq_check_connection(void);

static void sleep_until(TimestampTz until);
static void check_client(void);

/* Starts a wait on the queue whose table is relid. */
void
wait_begin(WaitState *state, Oid relid)
{
	state->relid = relid;
	state->nap = FIRST_NAP;
}

/* Must come before the clock and the snapshot of each look are taken. */
void
wait_prepare(WaitState *state)
{
	CHECK_FOR_INTERRUPTS();
}

/*
 * Sleeps until it is worth looking again; false when the deadline is past,
 * so that the last look is never before it.
 */
bool
wait_sleep(WaitState *state, TimestampTz deadline, TimestampTz next_due)
{
	TimestampTz now = GetCurrentTimestamp();

	if (now >= deadline)
		return false;
	sleep_until(Min(Min(deadline, next_due),
					TimestampTzPlusMilliseconds(now, state->nap)));
	state->nap = Min(2 * state->nap, LONGEST_NAP);
	return true;
}

/* Ends a wait that was begun, whatever it found. */
void
wait_end(WaitState *state, int found)
{
}

/* Sleeps to a moment, attentive to cancel, shutdown and a lost client. */
static void
sleep_until(TimestampTz until)
{
	for (;;)
	{
		long		left = TimestampDifferenceMilliseconds(GetCurrentTimestamp(),
														   until);

		if (left <= 0)
			break;
		(void) WaitLatch(MyLatch,
						 WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
						 Min(left, LONGEST_SLICE), PG_WAIT_EXTENSION);
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
		check_client();
	}
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
