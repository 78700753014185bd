/*-------------------------------------------------------------------------
 *
 * storage_layout.c
 *	  What the table of a queue must look like.
 *
 * The table is its owner's, who can alter it.  The path of a message takes
 * its columns for granted, so they are checked when the table is looked at
 * anew after a change.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_class.h"
#include "catalog/pg_type.h"

#include "storage.h"

static const Oid column_types[Natts_message] = {
	INT8OID, TIMESTAMPTZOID, UUIDOID, TIMESTAMPTZOID, INT4OID, INT4OID,
	TIMESTAMPTZOID, TIMESTAMPTZOID, TIMESTAMPTZOID, TEXTOID, TEXTOID, TEXTOID,
	TEXTOID, TEXTOID, TEXTOID, JSONBOID
};

/*
 * Raises an error unless a table has the columns of a queue, and no others but
 * such as were dropped again.
 */
void
storage_check_layout(Relation rel, const char *queue_name)
{
	TupleDesc	desc = RelationGetDescr(rel);
	bool		ok = rel->rd_rel->relkind == RELKIND_RELATION &&
		desc->natts >= Natts_message;

	for (int i = 0; ok && i < desc->natts; i++)
		ok = i < Natts_message ?
			TupleDescAttr(desc, i)->atttypid == column_types[i] &&
			!TupleDescAttr(desc, i)->attisdropped :
			TupleDescAttr(desc, i)->attisdropped;
	if (!ok)
		ereport(ERROR,
				errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				errmsg("table of queue \"%s\" does not have the columns of a queue",
					   queue_name),
				errhint("Undo what changed the columns of %s.%s.",
						SQS_SCHEMA, RelationGetRelationName(rel)));
}
