/*-------------------------------------------------------------------------
 *
 * launcher.h
 *	  What the launcher, the workers and the sessions say to each other.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LAUNCHER_H
#define LAUNCHER_H

#define MAX_ANNOUNCED 32

/* how far a worker is, or how it ended */
typedef enum WorkerState
{
	WORKER_NONE,				/* there is none */
	WORKER_STARTING,			/* has not seen the extension yet */
	WORKER_RUNNING,
	WORKER_FAILED,				/* ended: error or termination */
	WORKER_ABSENT,				/* ended: the database has no pg_sqs */
	WORKER_LEFT					/* ended: switched off, or in the way of a
								 * command on its database */
} WorkerState;

typedef struct WorkerReport
{
	Oid			dboid;
	WorkerState state;
} WorkerReport;

typedef struct WorkerNews
{
	int			nreports;
	WorkerReport *reports;
	int			nannounced;
	Oid			announced[MAX_ANNOUNCED];
	bool		overflow;		/* more were announced than fit */
} WorkerNews;

/* in worker_slot.c: who works where */
extern void worker_slot_init(void);
extern bool worker_slot_claim(Oid dboid);
extern void worker_slot_running(void);
extern void worker_slot_ending(WorkerState state);
extern void launcher_attach(void);
extern WorkerNews *launcher_collect(void);

/* in worker.c */
extern bool worker_lock_database(Oid dboid);

#endif							/* LAUNCHER_H */
