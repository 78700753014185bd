/*-------------------------------------------------------------------------
 *
 * sql.h
 *	  SQL for the calls that manage queues.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SQL_H
#define SQL_H

#include "fmgr.h"
#include "utils/array.h"

#define SQL_MAX_ARGS 24

/* who runs a statement, and what it sees */
typedef enum SqlMode
{
	SQL_ROW,					/* the catalog's owner, the row of a queue; to
								 * change it, under queue_lock */
	SQL_LIST,					/* the catalog's owner, reading many rows */
	SQL_DDL						/* the caller, a command or a function */
} SqlMode;

typedef struct SqlResult
{
	int			rows;			/* returned, or changed */
	int			columns;
	char	  **values;			/* row after row; NULL = null */
} SqlResult;

#define sql_value(result, row, column) \
	((result)->values[(row) * (result)->columns + (column)])

/*
 * The row of queue $1, for an UPDATE.  SnapshotSelf sees what its own
 * statement wrote as well; a new version has another ctid, so that it is not
 * met again.
 */
#define SQL_THE_QUEUE "ctid = (SELECT ctid FROM sqs.queue WHERE id = $1::int4)"

/* in sql.c */
extern SqlResult sql_run(SqlMode mode, const char *statement, int n,
						 const char *const *args);
extern SqlResult sql_queue_row(const char *statement, int32 queue_id);
extern char *sql_array(ArrayType *array);

#endif							/* SQL_H */
