/**
 * `chancery renewal advise` and `renewal clear`: "renew now" for a set of certificates
 * (RFC 9773 §4.2).
 */

import type { Config } from '../../config/schema.ts'
import { advisedWindow } from '../../domain/renewal-window.ts'
import { renderTimestamp } from '../../shared/protocol/timestamp.ts'
import { type AdviceSelection, createRenewalStore, type RenewalStore } from '../../store/renewal-store.ts'
import { CommandError, UsageError } from './errors.ts'
import { withDatabase } from './operator-database.ts'
import { hexOf, instantOf } from './option-values.ts'
import { type AdviceFlags, ANY, AT_ONCE, NO_EXPLANATION, type SelectionFlags } from './renewal-flags.ts'

export async function adviseRenewal(config: Config, flags: AdviceFlags): Promise<number> {
  const now = new Date()
  const end = flags['window-end'] === AT_ONCE ? undefined : instantOf('--window-end', flags['window-end'])
  if (end && end <= now) throw new UsageError('--window-end must lie in the future; leave it out to renew at once')
  const explanationUrl = flags.explanation === NO_EXPLANATION ? undefined : urlOf(flags.explanation)
  return withStore(config, async (store) => {
    const window = advisedWindow(now, end)
    const count = await store.advise(await selectionOf(flags, store), { window, explanationUrl })
    console.log(
      `${count} certificate(s): window ${renderTimestamp(window.start)} to ${renderTimestamp(window.end)}, or to the end of a shorter lifetime`,
    )
    return count
  })
}

export async function clearAdvice(config: Config, flags: SelectionFlags): Promise<number> {
  return withStore(config, async (store) => {
    const count = await store.clear(await selectionOf(flags, store))
    console.log(`${count} certificate(s) have their usual renewal window again`)
    return count
  })
}

/** @returns the exit code; 1 when no certificate matches, which is probably a mistake */
async function withStore(config: Config, work: (store: RenewalStore) => Promise<number>): Promise<number> {
  return withDatabase(config, async (db) => ((await work(createRenewalStore(db))) > 0 ? 0 : 1))
}

async function selectionOf(flags: SelectionFlags, store: RenewalStore): Promise<AdviceSelection> {
  const { serial, issuer, 'issued-before': issuedBefore } = flags
  const selection: AdviceSelection = {
    ...(serial !== ANY && { serialNumbers: [serial].flat().map((text) => hexOf('--serial', text)) }),
    ...(issuer !== ANY && { issuerFingerprint: await issuerOf(issuer, store) }),
    ...(issuedBefore !== ANY && { issuedBefore: instantOf('--issued-before', issuedBefore) }),
  }
  if ((Object.keys(selection).length === 0) !== flags.all)
    throw new UsageError('say which certificates: --serial, --issuer, --issued-before, or --all')
  return selection
}

async function issuerOf(text: string, store: RenewalStore): Promise<Buffer> {
  const fingerprint = hexOf('--issuer', text)
  const known = await store.listIssuers()
  if (!known.includes(fingerprint.toString('hex')))
    throw new CommandError(
      `--issuer is the SHA-256 fingerprint of an issuer certificate; this database knows ${known.join(', ') || 'none'}`,
    )
  return fingerprint
}

function urlOf(text: string): string {
  if (!/^https?:\/\//.test(text) || !URL.canParse(text))
    throw new UsageError('--explanation takes an http or https URL')
  return text
}
