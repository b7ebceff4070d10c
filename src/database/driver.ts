import pg from 'pg';

// 64-bit integers as numbers, because ours are far below 2^53. A day as text, because a Date would depend on the time zone.
pg.types.setTypeParser(pg.types.builtins.INT8, Number);
pg.types.setTypeParser(pg.types.builtins.DATE, (value) => value);

/** The driver of both engines, so that both return the same types. */
export { pg };
