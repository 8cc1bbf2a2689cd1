/**
 * What is loaded: the figures, and what follows from them. Everything in a row follows from its number, so a load that was
 * interrupted goes on where it stopped, and two loads with the same figures make the same rows.
 */

export interface LoadFigures {
  accounts: number
  certificates: number
  /** Orders of the one account whose key is known (command.ts). */
  largeAccountOrders: number
  /** How far back the oldest order lies. */
  historyDays: number
}

export interface LoadPlan extends LoadFigures {
  /** Milliseconds since 1970; the newest order is that old. */
  end: number
  /** Orders, those without a certificate included. */
  orders: number
  /** Names that get a certificate again and again. */
  sites: number
  /** The first of them are the large account's. */
  largeAccountSites: number
}

/** Of a thousand orders: validation failed, abandoned by the client, refused at finalize. The others have a certificate. */
export const WITHOUT_CERTIFICATE = { failed: 20, abandoned: 20, refused: 1 } as const
const MISSING = WITHOUT_CERTIFICATE.failed + WITHOUT_CERTIFICATE.abandoned + WITHOUT_CERTIFICATE.refused

/** Most clients renew a certificate of ninety days after sixty. */
const RENEWAL_DAYS = 60

export function planOf(figures: LoadFigures, end: number): LoadPlan {
  const orders = Math.ceil((figures.certificates * 1000) / (1000 - MISSING))
  const renewals = Math.max(1, figures.historyDays / RENEWAL_DAYS)
  const sites = Math.max(1, Math.round(orders / renewals))
  const largeAccountSites = Math.min(sites, Math.round(figures.largeAccountOrders / renewals))
  return { ...figures, end, orders, sites, largeAccountSites }
}

export interface Batch {
  kind: 'accounts' | 'orders'
  from: number
  /** The first number that is not in it. */
  to: number
}

/** A second or two each, so that progress shows and an interruption loses little. */
const BATCH_ROWS = 20_000

export function batchesOf({ accounts, orders }: LoadPlan): Batch[] {
  return [...cut('accounts', accounts), ...cut('orders', orders)]
}

function cut(kind: Batch['kind'], count: number): Batch[] {
  return Array.from({ length: Math.ceil(count / BATCH_ROWS) }, (_, i) => ({
    kind,
    from: i * BATCH_ROWS,
    to: Math.min(count, (i + 1) * BATCH_ROWS),
  }))
}
