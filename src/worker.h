/*-------------------------------------------------------------------------
 *
 * worker.h
 *	  What the files of the background worker share.
 *
 *-------------------------------------------------------------------------
 */
#ifndef WORKER_H
#define WORKER_H

#include "datatype/timestamp.h"

/* how often in a row something failed */
typedef struct Trouble
{
	int			failures;
	TimestampTz retry_at;		/* not to be tried again before */
} Trouble;

/* in worker.c */
extern bool worker_run(void (*work) (void *), void *arg, Trouble *trouble,
					   const char *queue);

/* in worker_queue.c: which queue needs what, when */
extern void worker_queues_init(void);
extern TimestampTz worker_queues_round(void);

#endif							/* WORKER_H */
