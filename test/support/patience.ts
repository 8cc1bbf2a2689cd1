/**
 * The limit of time in tests. It decides nothing: it ends a wait for what never comes.
 *
 * The runner measures at its start how slow the machine is. `CHANCERY_TEST_PATIENCE` sets that factor by hand.
 */

const FACTOR = Math.max(1, Number(process.env['CHANCERY_TEST_PATIENCE']) || 1)

/** For one condition. What builds packages, roots or images takes a multiple of it. */
export const WAIT_MS = 60_000 * FACTOR
