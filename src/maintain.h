/*-------------------------------------------------------------------------
 *
 * maintain.h
 *	  Maintenance of queues, for maintain.c and the worker.
 *
 *-------------------------------------------------------------------------
 */
#ifndef MAINTAIN_H
#define MAINTAIN_H

#include "pg_sqs.h"

/* a queue as it stands in the catalog */
typedef struct ListedQueue
{
	int32		id;
	int32		dead_letter_id; /* of its dead-letter queue; 0 = none */
	Oid			relid;			/* its table; InvalidOid = gone */
	TimestampTz modified_at;
	char		name[SQS_MAX_NAME + 1];
} ListedQueue;

/* how far a walk over a queue's messages got */
typedef struct Walk
{
	Position	from;			/* where to go on */
	Position	again;			/* the first that must be met again */
	TimestampTz until;			/* the last visible_at of interest */
	TimestampTz now;			/* clock of the part walked last */
	TimestampTz next_expiry;	/* of the messages met; DT_NOEND = none */
} Walk;

/* a queue being maintained, in one transaction */
typedef struct Maintenance
{
	const ListedQueue *listed;
	Queue		queue;
	QueueTable *table;
	Redrive		redrive;
	bool		redriving;		/* redrive is open */
	bool		no_redrive;		/* there is no queue to move to */
	bool		redrive_busy;	/* there is one, but its table is locked */
	int			met;			/* messages met */
	int			changed;		/* and of them removed, moved or counted */
	Identity	own;			/* who began it */
} Maintenance;

extern List *maintain_list(void);
extern bool maintain_begin(Maintenance *m, const ListedQueue *listed);
extern bool maintain_walk(Maintenance *m, Walk *walk, int max_rows);
extern bool maintain_count_lost(Maintenance *m);
extern void maintain_end(Maintenance *m);
extern void maintain_gauges(const ListedQueue *listed);
extern void maintain_deleted_queues(void);

#endif							/* MAINTAIN_H */
