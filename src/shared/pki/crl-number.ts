/**
 * CRL numbers (RFC 5280 §5.2.3) and the clock.
 *
 * A number is the seconds since 1970, or the last number plus one if that is higher. So more than
 * one list a second moves the numbers ahead of the clock. The signer refuses numbers too far ahead:
 * after the highest possible number there is no next one.
 *
 * 30 days: 1,024 parts (`crl.shards`), rebuilt at 15 ms each without a pause, get there in ten
 * hours. After that one list a second is possible. A list may be valid as long by the signer's
 * defaults. So a signed highest number does no more harm than a signed empty list.
 */

export const MAX_CRL_NUMBER_LEAD_DAYS = 30
