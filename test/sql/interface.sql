-- The SQL interface: what programs may rely on, so a change here is one of the
-- contract

-- functions: names, arguments, defaults, results; v = volatile, i = immutable;
-- u = parallel unsafe, s = safe
SELECT p.proname || CASE p.prokind WHEN 'p' THEN ' (procedure)' ELSE '' END AS name,
	replace(pg_get_function_arguments(p.oid), ', ', E'\n') AS arguments,
	pg_get_function_result(p.oid) AS result,
	concat(p.provolatile, p.proparallel, CASE WHEN p.proisstrict THEN ' strict' END) AS is
FROM pg_depend d JOIN pg_proc p ON d.classid = 'pg_proc'::regclass AND p.oid = d.objid
WHERE d.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'pg_sqs') AND d.deptype = 'e'
	AND p.pronamespace <> 'sqs'::regnamespace
ORDER BY p.proname COLLATE "C";

-- row types and views
SELECT c.relname AS name, CASE c.relkind WHEN 'c' THEN 'type' ELSE 'view' END AS is,
	string_agg(a.attname || ' ' || format_type(a.atttypid, a.atttypmod), E'\n' ORDER BY a.attnum) AS columns
FROM pg_depend d
	JOIN pg_class c ON c.oid = d.objid AND d.classid = 'pg_class'::regclass
		OR c.reltype = d.objid AND d.classid = 'pg_type'::regclass AND c.relkind = 'c'
	JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0
WHERE d.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'pg_sqs') AND d.deptype = 'e'
	AND c.relnamespace <> 'sqs'::regnamespace
GROUP BY c.oid, c.relname, c.relkind ORDER BY c.relname COLLATE "C";

-- in schema sqs
SELECT pg_describe_object(d.classid, d.objid, d.objsubid) AS "in schema sqs"
FROM pg_depend d CROSS JOIN LATERAL pg_identify_object(d.classid, d.objid, d.objsubid) i
WHERE d.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'pg_sqs') AND d.deptype = 'e'
	AND (i.schema = 'sqs' OR i.type = 'schema')
	AND i.type <> 'type'
ORDER BY pg_describe_object(d.classid, d.objid, d.objsubid) COLLATE "C";

-- no two functions share a name
SELECT proname FROM pg_proc WHERE proname LIKE 'sqs\_%' GROUP BY proname HAVING count(*) > 1;

-- every object has a comment
SELECT pg_describe_object(d.classid, d.objid, d.objsubid) AS "without comment"
FROM pg_depend d
WHERE d.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'pg_sqs') AND d.deptype = 'e'
	AND obj_description(d.objid, d.classid::regclass::name) IS NULL
	-- array types; the row type of a table
	AND NOT EXISTS (SELECT FROM pg_type WHERE d.classid = 'pg_type'::regclass AND oid = d.objid AND typcategory = 'A')
	AND NOT (d.classid = 'pg_type'::regclass AND EXISTS (
		SELECT FROM pg_class WHERE reltype = d.objid AND relkind <> 'c'));

-- settings, once the library is loaded; pg_sqs.max_queues is there only where the extension is preloaded
SELECT sqs_backoff(1);
SELECT name, boot_val, unit, context, min_val, max_val FROM pg_settings
WHERE name LIKE 'pg\_sqs.%' AND name <> 'pg_sqs.max_queues'
ORDER BY name COLLATE "C";
SELECT boot_val, context FROM pg_settings WHERE name = 'pg_sqs.max_queues'
UNION SELECT '1024', 'postmaster';
