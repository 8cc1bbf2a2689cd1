/** The two switches of the whole service: maintenance and the signing stop, with the button that turns each. */

import { call, type Output } from '../api.ts'
import { Action } from '../components/dialog.tsx'

type Overview = Output<'getOverview'>

const MAINTENANCE = {
  title: 'Maintenance',
  about: 'Refuses new orders on all instances. Orders in progress continue; certificates stay available.',
  on: 'on',
  off: 'off',
  begin: 'Start maintenance',
  end: 'End maintenance',
  beginConsequence: 'Clients that order are told to come back later, on all instances, within two seconds.',
  endConsequence: 'New orders are accepted again.',
}

const SIGNING: typeof MAINTENANCE = {
  title: 'Signing',
  about: 'The emergency stop: no instance signs a certificate or a CRL.',
  on: 'stopped',
  off: 'running',
  begin: 'Stop signing',
  end: 'Resume signing',
  beginConsequence: 'All instances stop signing within two seconds. CRLs age; revocations wait for the next CRL.',
  endConsequence: 'Certificates and CRLs are signed again.',
}

export interface Switch {
  words: typeof MAINTENANCE
  isOn: boolean
  since: Overview['maintenance']
  operation: 'setMaintenance' | 'setSigning'
  set: (isOn: boolean, reason: string) => Promise<unknown>
}

export const switchesOf = ({ maintenance, signing }: Overview): Switch[] => [
  {
    words: MAINTENANCE,
    operation: 'setMaintenance',
    isOn: maintenance.maintenance_mode,
    since: maintenance,
    set: (enabled, reason) => call('setMaintenance', { body: { enabled, ...(reason && { reason }) } }),
  },
  {
    words: SIGNING,
    operation: 'setSigning',
    isOn: signing.signing_stopped,
    since: { ...signing, maintenance_mode: false },
    set: (stopped, reason) => call('setSigning', { body: { stopped, ...(reason && { reason }) } }),
  },
]

export const SwitchButton = ({ words, isOn, operation, set, reload }: Switch & { reload: () => void }) => (
  <Action
    needs={operation}
    kind={isOn ? 'primary' : 'danger'}
    action={isOn ? words.end : words.begin}
    consequence={isOn ? words.endConsequence : words.beginConsequence}
    fields={{ reason: { label: 'Reason', help: 'Others read it here and in the audit log.' } }}
    onConfirm={({ reason }) => set(!isOn, reason)}
    onDone={reload}
  />
)
