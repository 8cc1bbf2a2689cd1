/**
 * `chancery renewals advise` and `renewals clear`: "renew now" for a set of certificates
 * (RFC 9773 §4.2).
 */

import type { Config } from '../../config/schema.ts'
import { Renewals } from '../../services/admin/renewals.ts'
import { UsageError } from '../../shared/command-line/options.ts'
import { renderTimestamp } from '../../shared/protocol/timestamp.ts'
import type { AdviceSelection } from '../../store/renewal-store.ts'
import { tell } from '../table.ts'
import { withAdministration } from './administration.ts'

interface Selected {
  serial: Buffer[]
  issuer: Buffer | undefined
  'issued-before': Date | undefined
  all: boolean
  json: boolean
}

interface Advice extends Selected {
  'window-end': Date | undefined
  explanation: string | undefined
}

export async function adviseRenewal(config: Config, flags: Advice): Promise<number> {
  const windowEnd = flags['window-end']
  if (windowEnd && windowEnd <= new Date())
    throw new UsageError('--window-end must lie in the future; leave it out to renew at once')
  const explanationUrl = flags.explanation === undefined ? undefined : urlOf(flags.explanation)
  const selection = selectionOf(flags)
  return withAdministration(config, async ({ audit, actor }) => {
    const { certificates, window } = await new Renewals(audit).advise(actor, selection, { windowEnd, explanationUrl })
    const [from, to] = [renderTimestamp(window.start), renderTimestamp(window.end)]
    tell(
      flags.json,
      { certificates, window_start: from, window_end: to },
      `${certificates} certificate(s): window ${from} to ${to}, or to the end of a shorter lifetime`,
    )
    return exitCodeOf(certificates)
  })
}

export async function clearAdvice(config: Config, flags: Selected): Promise<number> {
  const selection = selectionOf(flags)
  return withAdministration(config, async ({ audit, actor }) => {
    const certificates = await new Renewals(audit).clear(actor, selection)
    tell(flags.json, { certificates }, `${certificates} certificate(s) have their usual renewal window again`)
    return exitCodeOf(certificates)
  })
}

/** That no certificate matches is probably a mistake. */
const exitCodeOf = (certificates: number) => (certificates > 0 ? 0 : 1)

function selectionOf({ serial, issuer, 'issued-before': issuedBefore, all }: Selected): AdviceSelection {
  const selection: AdviceSelection = {
    ...(serial.length > 0 && { serialNumbers: serial }),
    ...(issuer && { issuerFingerprint: issuer }),
    ...(issuedBefore && { issuedBefore }),
  }
  if ((Object.keys(selection).length === 0) !== all)
    throw new UsageError('say which certificates: --serial, --issuer, --issued-before, or --all')
  return selection
}

function urlOf(text: string): string {
  if (!/^https?:\/\//.test(text) || !URL.canParse(text))
    throw new UsageError('--explanation takes an http or https URL')
  return text
}
