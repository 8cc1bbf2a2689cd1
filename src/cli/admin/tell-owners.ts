/** `chancery certificates tell-owners`: asks owners of certificates at risk by mail to renew; without `--send` it prints the mails. */

import type { Input, Output } from '../../admin/client.ts'
import { AT_RISK_FILTERS } from '../../admin/resources/certificates.ts'
import { pick } from '../../admin/resources/filter.ts'
import { isGiven, UsageError } from '../../shared/command-line.ts'
import { tell } from '../printing.ts'
import { CommandError } from '../values.ts'
import type { AdminCaller } from './admin-caller.ts'
import { adminCommand } from './admin-command.ts'
import { byOptionName, givenOf, optionsOf } from './filter-options.ts'

/** One request of `POST /at-risk/notify` takes no more. */
const MOST = 200
const CHOICE = pick(AT_RISK_FILTERS, ['account_id', 'expiring_before'])

export const TELL_OWNERS = adminCommand({
  usage: 'certificates tell-owners',
  about: [
    'Show the mails that ask owners of certificates at risk to renew; send them with --send',
    'Serial numbers may follow; else it is about those that `certificates at-risk` lists, which are at most 200.',
  ],
  options: {
    ...byOptionName(optionsOf(CHOICE)),
    all: isGiven('All certificates at risk'),
    send: isGiven('Send the mails'),
  },
  examples: ['certificates tell-owners --expiring-before 2027-02-01', 'certificates tell-owners 0a1b2c --send'],
  further: true,
  async run(caller, { all, send, json, ...given }, serials) {
    const filter = givenOf(CHOICE, given)
    const isFiltered = Object.keys(filter).length > 0
    if ([serials.length > 0, isFiltered, all].filter(Boolean).length !== 1)
      throw new UsageError('say which certificates: serial numbers, --account-id and --expiring-before, or --all')
    const chosen = serials.length > 0 ? [...serials] : await atRisk(caller, filter)
    if (chosen.length === 0) throw new CommandError('no certificate is at risk')
    const told = await caller.call('notifyAtRisk', { body: { serial_numbers: chosen, dry_run: !send } })
    tell(json, told, ...(send ? [] : told.owners.map(mailText)), summaryOf(told, send === true))
    return told.mails > 0 ? 0 : 1
  },
})

/** @throws CommandError for more than one request takes: an owner would get several mails */
async function atRisk(caller: AdminCaller, query: Input<'listAtRisk'>['query']) {
  const serials: string[] = []
  for await (const { serial_number } of caller.rows('listAtRisk', { query: { ...query, limit: String(MOST) } })) {
    if (serials.length === MOST)
      throw new CommandError(`more than ${MOST} certificates are at risk: choose by --account-id or --expiring-before`)
    serials.push(serial_number)
  }
  return serials
}

type Told = Output<'notifyAtRisk'>

const mailText = ({ account_id, account_name, recipients, passed_over, subject, text }: Told['owners'][number]) => {
  const owner = account_name ?? account_id
  if (recipients.length > 0) return `${owner}\nTo: ${recipients.join(', ')}\nSubject: ${subject}\n\n${text}`
  return `${owner} ${passed_over.length > 0 ? 'has had enough of these mails today' : 'has no contact'}\n`
}

function summaryOf({ enabled, mails, certificates, not_at_risk, without_contact }: Told, isSent: boolean): string {
  return [
    `${mails} mail(s) about ${certificates} certificate(s) ${isSent ? 'will be sent' : 'would be sent with --send'}`,
    ...(not_at_risk > 0 ? [`${not_at_risk} of those named are not at risk, and were passed over`] : []),
    ...(without_contact > 0 ? [`${without_contact} account(s) have no contact`] : []),
    ...(enabled ? [] : ['smtp.enabled or notifications.enabled is false: none can be sent']),
  ].join('; ')
}
