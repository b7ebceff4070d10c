import pg from 'pg';

// Counts and amounts are far below 2^53, and a day is a day in every time zone.
pg.types.setTypeParser(pg.types.builtins.INT8, Number);
pg.types.setTypeParser(pg.types.builtins.DATE, (value) => value);

/** The driver of both engines, which read what they store in the same way. */
export { pg };
