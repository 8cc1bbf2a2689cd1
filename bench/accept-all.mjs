/**
 * A validator module that accepts everything, as cheap as one can be: `ext:./bench/accept-all.mjs` makes a run pay for all
 * requests and for the dispatch, and for nothing that a validator does. For measurements only.
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
