/**
 * A validator module that accepts everything at the lowest cost, for measurements only.
 *
 * With `ext:./bench/accept-all.mjs` a run pays for requests and dispatch, but not for validation.
 */

const ACCEPTED = { ok: true }

export default class AcceptAll {
  static type = 'accept-all-01'
  static wildcard = true
  static ip = true

  validate() {
    return ACCEPTED
  }
}
