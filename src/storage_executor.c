/*-------------------------------------------------------------------------
 *
 * storage_executor.c
 *	  Writes the rows of a queue's table through the executor.
 *
 * That is how a table is written of which a person made more than we did:
 * with triggers, other indexes, checks and so on.  The executor knows what to
 * do about them.  Each message is a statement of its own, also where a call
 * has many: that is how often triggers FOR EACH STATEMENT fire.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/sysattr.h"
#include "access/xact.h"
#include "commands/trigger.h"
#include "executor/executor.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "compat.h"
#include "pg_sqs.h"
#include "storage.h"

/* The columns that an update changes. */
static Bitmapset *
lease_columns(void)
{
	static const AttrNumber columns[] = {
		Anum_message_visible_at, Anum_message_receive_count,
		Anum_message_first_received_at, Anum_message_last_received_at
	};
	Bitmapset  *set = NULL;

	for (int i = 0; i < (int) lengthof(columns); i++)
		set = bms_add_member(set,
							 columns[i] - FirstLowInvalidHeapAttributeNumber);
	return set;
}

/*
 * Sets up the executor's part of a table.  To open an index can run functions
 * its owner chose (in its expressions), so that is done as the owner.
 */
Writer *
storage_open_writer(Relation rel)
{
	Writer	   *writer = palloc(sizeof(Writer));
	Identity	own;

	identity_assume(rel->rd_rel->relowner, &own);
	writer->estate = CreateExecutorState();
	init_range_table(writer->estate, rel, lease_columns());
	writer->rri = makeNode(ResultRelInfo);
	InitResultRelInfo(writer->rri, rel, 1, NULL, 0);
	ExecOpenIndices(writer->rri, false);
	EvalPlanQualInit(&writer->epq, writer->estate, NULL, NIL, -1, NIL);
	identity_resume(&own);
	return writer;
}

/* Takes down the executor's part of a table. */
void
storage_close_writer(Writer *writer)
{
	EvalPlanQualEnd(&writer->epq);
	ExecCloseIndices(writer->rri);
	ExecCloseResultRelations(writer->estate);
	ExecResetTupleTable(writer->estate->es_tupleTable, false);
	FreeExecutorState(writer->estate);
}

/* Notes a row where it came to be: a trigger may have put it elsewhere. */
static void
note_written(QueueTable *table)
{
	TupleTableSlot *slot = table->new_slot;
	Effects    *effects = storage_effects(table);
	Position	position;

	if (!ItemPointerIsValid(&slot->tts_tid))
		return;
	slot_getallattrs(slot);
	position.visible_at =
		DatumGetTimestampTz(slot->tts_values[Anum_message_visible_at - 1]);
	position.id = DatumGetInt64(slot->tts_values[Anum_message_id - 1]);
	effects_note(effects, position, POSITION_MAX);
	wakes_add(&effects->commit, position.visible_at, GetCurrentTimestamp());
}

/* Inserts table->new_slot, with all triggers. */
static void
insert_row(QueueTable *table, EState *estate, ResultRelInfo *rri)
{
	ExecBSInsertTriggers(estate, rri);
	ExecSimpleRelationInsert(rri, estate, table->new_slot);
	ExecASInsertTriggers(estate, rri, NULL);
}

/* Updates the row in table->slot to table->new_slot, with all triggers. */
static void
update_row(QueueTable *table, EState *estate, ResultRelInfo *rri)
{
	ExecBSUpdateTriggers(estate, rri);
	ExecSimpleRelationUpdate(rri, estate, &table->writer->epq, table->slot,
							 table->new_slot);
	ExecASUpdateTriggers(estate, rri, NULL);
}

/* Deletes the row in table->slot, with all triggers. */
static void
delete_row(QueueTable *table, EState *estate, ResultRelInfo *rri)
{
	ExecBSDeleteTriggers(estate, rri);
	ExecSimpleRelationDelete(rri, estate, &table->writer->epq, table->slot);
	ExecASDeleteTriggers(estate, rri, NULL);
}

/* Has the executor write a row, with its triggers and whatever indexes. */
void
storage_write_by_executor(QueueTable *table, WriteKind kind)
{
	EState	   *estate = table->writer->estate;
	ResultRelInfo *rri = table->writer->rri;
	Identity	own;

	if (table->as_owner)
		identity_assume(table->queue->owner, &own);
	ResetPerTupleExprContext(estate);
	estate->es_output_cid = GetCurrentCommandId(true);
	estate->es_snapshot = GetActiveSnapshot();
	AfterTriggerBeginQuery();
	if (kind == WRITE_INSERT)
		insert_row(table, estate, rri);
	else if (kind == WRITE_UPDATE)
		update_row(table, estate, rri);
	else
		delete_row(table, estate, rri);
	AfterTriggerEndQuery(estate);
	if (table->as_owner)
		identity_resume(&own);
	if (kind != WRITE_DELETE)
		note_written(table);
}
