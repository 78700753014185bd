-- sqs_tag_queue, sqs_untag_queue, sqs_list_queue_tags

\getenv folder PG_ABS_SRCDIR
\set helpers :folder /sql/helpers.psql
\set ECHO none
\i :helpers
\set ECHO all

SELECT sqs_create_queue('q', tags => '{"team": "billing", "größe": "", "n": 5, "b": true}');
SELECT sqs_list_queue_tags('q');
SELECT sqs_create_queue('bare');
SELECT sqs_list_queue_tags(queue_name => 'bare');

-- tagging merges and overwrites; keys are case-sensitive
SELECT sqs_tag_queue('q', '{"team": "sales", "Team": "x"}');
SELECT sqs_list_queue_tags('q');
SELECT sqs_tag_queue(queue_name => 'q', tags => '{"k": "v", "k": "w", "$1": "'' \" \\"}');
SELECT sqs_list_queue_tags('q');

-- removing ignores what is not there
SELECT sqs_untag_queue('q', '{team,Team,absent,b,n,$1}');
SELECT sqs_list_queue_tags('q');
SELECT sqs_untag_queue(queue_name => 'q', tag_keys => ARRAY[['k'],['größe']]);
SELECT sqs_list_queue_tags('q');
SELECT sqs_untag_queue('q', '{aws:x}');

-- shapes and lengths
SELECT try($$SELECT sqs_tag_queue('q', NULL)$$);
SELECT try($$SELECT sqs_tag_queue('q', '{}')$$);
SELECT try($$SELECT sqs_tag_queue('q', '[]')$$);
SELECT try($$SELECT sqs_tag_queue('q', '["a"]')$$);
SELECT try($$SELECT sqs_tag_queue('q', '"a"')$$);
SELECT try($$SELECT sqs_tag_queue('q', 'null')$$);
SELECT try($$SELECT sqs_tag_queue('q', '{"a": "b", "k": null}')$$);
SELECT try($$SELECT sqs_tag_queue('q', '{"k": {"v": "w"}}')$$);
SELECT try($$SELECT sqs_tag_queue('q', '{"k": ["v"]}')$$);
SELECT try($$SELECT sqs_tag_queue('q', '{"": "v"}')$$);
SELECT try(format('SELECT sqs_tag_queue(''q'', ''{"%s": "v"}'')', repeat('ü', 129)));
SELECT try(format('SELECT sqs_tag_queue(''q'', ''{"k": "%s"}'')', repeat('ü', 257)));
SELECT try($$SELECT sqs_tag_queue('q', '{"aws:k": "v"}')$$);
SELECT try($$SELECT sqs_tag_queue('q', '{"AWS:": "v"}')$$);
SELECT sqs_list_queue_tags('q');
SELECT try(format('SELECT sqs_tag_queue(''q'', ''{"%s": "%s", "awsx": "aws:"}'')', repeat('ü', 128), repeat('ü', 256)));
SELECT length(key), length(value) FROM jsonb_each_text(sqs_list_queue_tags('q')) ORDER BY 1;
SELECT try($$SELECT sqs_untag_queue('q', NULL)$$);
SELECT try($$SELECT sqs_untag_queue('q', '{}')$$);
SELECT try($$SELECT sqs_untag_queue('q', '{a,NULL}')$$);
SELECT try($$SELECT sqs_untag_queue('q', '{""}')$$);
SELECT try($$SELECT sqs_untag_queue('q', ARRAY[repeat('a', 129)])$$);
SELECT try($$SELECT sqs_create_queue('new', tags => '{"k": null}')$$);
SELECT try($$SELECT sqs_create_queue('new', tags => '{"": "v"}')$$);
SELECT try($$SELECT sqs_create_queue('new', tags => '{"aws:k": "v"}')$$);
SELECT try(format('SELECT sqs_create_queue(''new'', tags => %L)', (SELECT jsonb_object_agg(i, i) FROM generate_series(1, 51) i)));

-- fifty at most, all or none
SELECT try(format('SELECT sqs_create_queue(''fifty'', tags => %L)', (SELECT jsonb_object_agg(i, i) FROM generate_series(1, 50) i)));
SELECT sqs_tag_queue('fifty', '{"50": "again"}');
SELECT try($$SELECT sqs_tag_queue('fifty', '{"49": "again", "51": "x"}')$$);
SELECT sqs_list_queue_tags('fifty') ->> '49', sqs_list_queue_tags('fifty') ->> '50', count(*) FROM jsonb_object_keys(sqs_list_queue_tags('fifty'));
SELECT try(format('SELECT sqs_tag_queue(''q'', %L)', (SELECT jsonb_object_agg(i, i) FROM generate_series(1, 51) i)));

-- which queue
SELECT try($$SELECT sqs_tag_queue(NULL, '{"a": "b"}')$$);
SELECT try($$SELECT sqs_tag_queue('not-there', '{"a": "b"}')$$);
SELECT try($$SELECT sqs_tag_queue(repeat('q', 81), '{"a": "b"}')$$);
SELECT try($$SELECT sqs_untag_queue(NULL, '{a}')$$);
SELECT try($$SELECT sqs_untag_queue('größe', '{a}')$$);
SELECT try($$SELECT sqs_list_queue_tags(NULL)$$);
SELECT try($$SELECT sqs_list_queue_tags('')$$);

-- rolled back, and seen at once
BEGIN;
SELECT sqs_tag_queue('bare', '{"a": "b"}');
SELECT sqs_list_queue_tags('bare');
ROLLBACK;
SELECT sqs_list_queue_tags('bare');
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT sqs_tag_queue('bare', '{"a": "b"}'), sqs_tag_queue('bare', '{"c": "d"}'), sqs_untag_queue('bare', '{a}');
SELECT sqs_list_queue_tags('bare');
COMMIT;
BEGIN READ ONLY;
SELECT sqs_list_queue_tags('bare');
SELECT try($$SELECT sqs_tag_queue('bare', '{"a": "b"}')$$);
SELECT try($$SELECT sqs_untag_queue('bare', '{a}')$$);
COMMIT;

-- privileges
CREATE ROLE regress_tagger;
SET ROLE regress_tagger;
SELECT try($$SELECT sqs_list_queue_tags('bare')$$);
SELECT try($$SELECT sqs_tag_queue('bare', '{"a": "b"}')$$);
RESET ROLE;
SELECT sqs_add_permission('bare', 'l', '{regress_tagger}', '{*}');
SET ROLE regress_tagger;
SELECT sqs_list_queue_tags('bare');
SELECT try($$SELECT sqs_tag_queue('bare', '{"a": "b"}')$$);
SELECT try($$SELECT sqs_untag_queue('bare', '{c}')$$);
RESET ROLE;

SELECT sqs_delete_queue(name) FROM (SELECT name FROM sqs_list_queues() name) q;
DROP ROLE regress_tagger;
