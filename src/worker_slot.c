/*-------------------------------------------------------------------------
 *
 * worker_slot.c
 *	  What is known in shared memory of workers: a slot for each, and which
 *	  databases sessions have announced.
 *
 * The launcher alone starts workers, but it may be restarted while they run,
 * so who works where is kept here and not in its handles: a worker claims a
 * slot first thing, and a second one for the same database leaves again.  At
 * its end, whatever the reason, a worker leaves a report in its slot, which
 * the launcher takes when it frees the slot.
 *
 * A session announces its database when CREATE EXTENSION commits, and when
 * it uses a queue while no worker runs: nobody but a process connected to a
 * database can tell whether the extension is there, and to ask every
 * database again and again is what the announcement spares us.
 *
 * Everything in WorkerShared is guarded by its lock.  It exists only where
 * the library is preloaded; elsewhere an announcement does nothing.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/lwlock.h"
#include "storage/proc.h"
#include "storage/shmem.h"

#include "compat.h"
#include "launcher.h"
#include "pg_sqs.h"

typedef struct WorkerSlot
{
	Oid			dboid;			/* InvalidOid = the slot is free */
	pid_t		pid;			/* 0 = it ended, state says how */
	Latch	   *latch;			/* of the worker, if pid is not 0 */
	WorkerState state;
} WorkerSlot;

typedef struct WorkerShared
{
	LWLock	   *lock;			/* guards the rest; set once */
	Latch	   *launcher;		/* NULL = none is running */
	int			nannounced;
	bool		overflow;		/* more were announced than fit */
	Oid			announced[MAX_ANNOUNCED];
	int			nslots;
	WorkerSlot	slots[FLEXIBLE_ARRAY_MEMBER];
} WorkerShared;

static WorkerShared *shared = NULL;
static WorkerSlot *my_slot = NULL;
static WorkerState my_end = WORKER_FAILED;
static bool announce_at_commit = false;
static shmem_request_hook_type prev_shmem_request_hook = NULL;
static shmem_startup_hook_type prev_shmem_startup_hook = NULL;

PG_FUNCTION_INFO_V1(sqs_announce);

/*
 * Slots enough for every worker that can run, and for as many reports of
 * workers that have just ended.
 */
static int
slot_count(void)
{
	return 2 * max_worker_processes;
}

/* Bytes of shared memory. */
static Size
shared_size(void)
{
	return add_size(offsetof(WorkerShared, slots),
					mul_size(slot_count(), sizeof(WorkerSlot)));
}

/* Asks for shared memory. */
static void
request_shared(void)
{
	if (prev_shmem_request_hook)
		prev_shmem_request_hook();
	RequestAddinShmemSpace(shared_size());
	RequestNamedLWLockTranche("pg_sqs_worker", 1);
}

/* Sets up shared memory. */
static void
start_shared(void)
{
	bool		found;

	if (prev_shmem_startup_hook)
		prev_shmem_startup_hook();
	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	shared = ShmemInitStruct("pg_sqs workers", shared_size(), &found);
	if (!found)
	{
		memset(shared, 0, shared_size());
		shared->lock = &GetNamedLWLockTranche("pg_sqs_worker")->lock;
		shared->nslots = slot_count();
	}
	LWLockRelease(AddinShmemInitLock);
}

/* Wakes the launcher; the caller has the lock. */
static void
wake_launcher(void)
{
	if (shared->launcher != NULL)
		SetLatch(shared->launcher);
}

/* The slot of a database, NULL if it has none; the caller has the lock. */
static WorkerSlot *
find_slot(Oid dboid)
{
	for (int i = 0; i < shared->nslots; i++)
	{
		if (shared->slots[i].dboid == dboid)
			return &shared->slots[i];
	}
	return NULL;
}

/* Notes that this database has the extension; the caller has the lock. */
static void
announce_database(void)
{
	int			n = shared->nannounced;

	for (int i = 0; i < n; i++)
	{
		if (shared->announced[i] == MyDatabaseId)
			return;
	}
	if (n < MAX_ANNOUNCED)
		shared->announced[shared->nannounced++] = MyDatabaseId;
	else
		shared->overflow = true;
	wake_launcher();
}

/* Transaction callback: what was created is now there to be seen. */
static void
end_transaction(XactEvent event, void *arg)
{
	if (!announce_at_commit)
		return;
	if (event == XACT_EVENT_COMMIT)
	{
		LWLockAcquire(shared->lock, LW_EXCLUSIVE);
		announce_database();
		LWLockRelease(shared->lock);
	}
	if (event == XACT_EVENT_COMMIT || event == XACT_EVENT_ABORT ||
		event == XACT_EVENT_PREPARE)
		announce_at_commit = false;
}

/* Called by the server when it preloads the library. */
void
worker_slot_init(void)
{
	prev_shmem_request_hook = shmem_request_hook;
	shmem_request_hook = request_shared;
	prev_shmem_startup_hook = shmem_startup_hook;
	shmem_startup_hook = start_shared;
	RegisterXactCallback(end_transaction, NULL);
}

/* Announces the database when the transaction commits: last in the script. */
Datum
sqs_announce(PG_FUNCTION_ARGS)
{
	announce_at_commit = shared != NULL;
	PG_RETURN_VOID();
}

/* Announces the database, the first time this session uses a queue. */
void
worker_announce_use(void)
{
	static bool announced = false;
	WorkerSlot *slot;

	if (announced || shared == NULL)
		return;
	announced = true;
	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	slot = find_slot(MyDatabaseId);
	if (slot == NULL || slot->pid == 0)
		announce_database();
	LWLockRelease(shared->lock);
}

/* Wakes the worker of this database; false if none is at work. */
bool
worker_wake(void)
{
	WorkerSlot *slot;
	bool		running;

	if (shared == NULL)
		return false;
	LWLockAcquire(shared->lock, LW_SHARED);
	slot = find_slot(MyDatabaseId);
	running = slot != NULL && slot->pid != 0 && slot->state == WORKER_RUNNING;
	if (running)
		SetLatch(slot->latch);
	LWLockRelease(shared->lock);
	return running;
}

/* Exit callback of a worker: leaves the report and wakes the launcher. */
static void
leave_report(int code, Datum arg)
{
	if (my_slot == NULL)
		return;
	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	my_slot->pid = 0;
	my_slot->state = my_end;
	wake_launcher();
	LWLockRelease(shared->lock);
	my_slot = NULL;
}

/* Takes the slot of this worker; false if there is another one. */
bool
worker_slot_claim(Oid dboid)
{
	WorkerSlot *slot;

	before_shmem_exit(leave_report, (Datum) 0);
	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	slot = find_slot(dboid);
	if (slot == NULL)
		slot = find_slot(InvalidOid);
	if (slot != NULL && slot->pid == 0)
	{
		slot->dboid = dboid;
		slot->pid = MyProcPid;
		slot->latch = MyLatch;
		slot->state = WORKER_STARTING;
		my_slot = slot;
	}
	LWLockRelease(shared->lock);
	return my_slot != NULL;
}

/* Tells the launcher that the extension is there and its worker at work. */
void
worker_slot_running(void)
{
	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	if (my_slot->state != WORKER_RUNNING)
	{
		my_slot->state = WORKER_RUNNING;
		wake_launcher();
	}
	LWLockRelease(shared->lock);
}

/* Sets how the end of this worker will be reported, should it end now. */
void
worker_slot_ending(WorkerState state)
{
	my_end = state;
}

/* Exit callback of the launcher. */
static void
detach_launcher(int code, Datum arg)
{
	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	shared->launcher = NULL;
	LWLockRelease(shared->lock);
}

/* Makes this process the launcher. */
void
launcher_attach(void)
{
	before_shmem_exit(detach_launcher, (Datum) 0);
	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	shared->launcher = MyLatch;
	LWLockRelease(shared->lock);
}

/*
 * Takes what has been announced, and how far each worker is or how it ended;
 * the slots of those that ended are free then.
 */
WorkerNews *
launcher_collect(void)
{
	WorkerNews *news = palloc0(sizeof(WorkerNews));

	news->reports = palloc(shared->nslots * sizeof(WorkerReport));
	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	for (int i = 0; i < shared->nslots; i++)
	{
		WorkerSlot *slot = &shared->slots[i];

		if (!OidIsValid(slot->dboid))
			continue;
		news->reports[news->nreports].dboid = slot->dboid;
		news->reports[news->nreports++].state = slot->state;
		if (slot->pid == 0)
			slot->dboid = InvalidOid;
	}
	memcpy(news->announced, shared->announced, sizeof(news->announced));
	news->nannounced = shared->nannounced;
	news->overflow = shared->overflow;
	shared->nannounced = 0;
	shared->overflow = false;
	LWLockRelease(shared->lock);
	return news;
}
