/**
 * CRL numbers (RFC 5280 §5.2.3) and the clock.
 *
 * Each is the seconds since 1970 or one more than the last, so that lists made faster than one a
 * second bring the numbers ahead of the clock. The signer refuses what is further ahead than this:
 * numbers only rise, and one that somebody signed at the end of the range would have been the last.
 *
 * 30 days: the 1,024 parts that there may be (`crl.shards`), built anew without a pause at 15 ms
 * each, get there after ten hours, and from then on there is one list a second. It is as long as a
 * list may be valid by the signer's defaults, so whoever signs the highest number gains nothing
 * over a list without entries.
 */

export const MAX_CRL_NUMBER_LEAD_DAYS = 30
