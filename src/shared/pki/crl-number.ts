/**
 * CRL numbers (RFC 5280 §5.2.3) and the clock.
 *
 * A number is the seconds since 1970, or the last number plus one if that is higher. So more than
 * one list a second moves the numbers ahead of the clock. The signer refuses numbers too far ahead:
 * after the highest possible number there is no next one.
 *
 * 30 days: 1,024 parts (`crl.shards`) rebuilt without a pause at 15 ms each need ten hours; then
 * one list a second follows. The signer's default validity of a list is as long. Signing the
 * highest number thus gains no more than signing an empty list.
 */

export const MAX_CRL_NUMBER_LEAD_DAYS = 30
