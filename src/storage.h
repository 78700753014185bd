/*-------------------------------------------------------------------------
 *
 * storage.h
 *	  The layout of a queue's table, and an open one: for the files storage*.c
 *	  and catalog.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef STORAGE_H
#define STORAGE_H

#include "access/genam.h"
#include "access/relscan.h"
#include "executor/tuptable.h"
#include "nodes/execnodes.h"
#include "utils/rel.h"
#include "utils/snapshot.h"

#include "pg_sqs.h"

enum
{
	Anum_message_id = 1,
	Anum_message_sent_at,
	Anum_message_message_id,
	Anum_message_visible_at,
	Anum_message_receive_count,
	Anum_message_visibility_timeout,
	Anum_message_enqueued_at,
	Anum_message_first_received_at,
	Anum_message_last_received_at,
	Anum_message_sender_id,
	Anum_message_message_group_id,
	Anum_message_message_deduplication_id,
	Anum_message_aws_trace_header,
	Anum_message_dead_letter_queue_source,
	Anum_message_body,
	Anum_message_message_attributes,
	Natts_message = Anum_message_message_attributes
};

/* the executor's part of a table that needs it to write */
typedef struct Writer
{
	EState	   *estate;
	ResultRelInfo *rri;
	EPQState	epq;			/* of no use but to be there */
} Writer;

struct QueueTable
{
	const Queue *queue;
	Relation	rel;
	Relation	pkey;			/* NULL = not needed so far, as the next two */
	Relation	due;
	IndexInfo  *index_info;		/* of both indexes */
	LOCKMODE	lockmode;
	Writer	   *writer;			/* NULL = written by hand */
	bool		as_owner;		/* triggers run as the table's owner */
	bool		changed;
	Effects    *effects;		/* of this transaction; NULL = none yet */
	const CursorScan *walker;	/* the scan that takes rows; NULL = none */
	Snapshot	snapshot;		/* registered; NULL = not taken yet */
	IndexScanDesc scan;
	ScanKeyData keys[2];
	ScanKeyData from_keys[2];	/* members of keys[0], a row comparison */
	TupleTableSlot *slot;		/* the row found last */
	TupleTableSlot *new_slot;
};

/* in storage_layout.c */
extern void storage_check_layout(Relation rel, const char *queue_name);

/* in storage.c */
extern bool storage_fetch_version(QueueTable *table, ItemPointer tid, int64 id);
extern Relation storage_pkey(QueueTable *table);
extern Relation storage_due_index(QueueTable *table);

/* in storage_row.c */
extern void storage_read(QueueTable *table, Message *message);
extern Position storage_row_position(QueueTable *table);
extern TransactionId storage_row_locker(QueueTable *table);

/* in storage_executor.c */
typedef enum WriteKind
{
	WRITE_INSERT,
	WRITE_UPDATE,
	WRITE_DELETE
} WriteKind;

extern Writer *storage_open_writer(Relation rel);
extern void storage_close_writer(Writer *writer);
extern void storage_write_by_executor(QueueTable *table, WriteKind kind);

#endif							/* STORAGE_H */
