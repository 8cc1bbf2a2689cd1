/**
 * Services and tests run with settings that an operator's machine may have, so nothing that is written or read depends on
 * them. The PostgreSQL of the tests has its own such settings (`postgres.ts`).
 */

/** For the tests themselves. A locale that is not installed would make other programs complain. */
export const OTHER_TIME_ZONE = { TZ: 'Asia/Kathmandu' } as const

/** For services: the Turkish I has no small i. */
export const OTHER_ENVIRONMENT = { ...OTHER_TIME_ZONE, LC_ALL: 'tr_TR.UTF-8' } as const

/** Files that a program makes are open to all, unless it says otherwise. */
export const OTHER_UMASK = '000'
