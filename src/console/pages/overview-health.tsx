/** The health of the instance that answers, part by part; and the two switches of the whole service, each with its button. */

import { call, type Output } from '../api.ts'
import { Badge, Facts, LinkTo, Time } from '../components/basics.tsx'
import { Action } from '../components/dialog.tsx'
import { Section } from '../components/page.tsx'
import { counted, countText } from '../format.ts'
import { instantText } from '../preferences.ts'
import { href } from '../router.ts'

type Overview = Output<'getOverview'>

const state = (status: string) => <Badge tone={status === 'ok' || status === 'ready' ? 'good' : 'bad'}>{status}</Badge>

export function Health({ data, reload }: { data: Overview; reload: () => void }) {
  const { instance, version } = data
  const since = (at: string | null, by: string | null) =>
    at !== null && (
      <span class="quiet">
        {' '}
        since {instantText(at)} by {by ?? '–'}
      </span>
    )
  return (
    <Section title="Health of this instance">
      <Facts
        rows={[
          ['Version', version],
          ['Database', instance ? <DatabaseState instance={instance} /> : 'unknown'],
          [
            'Signer',
            instance ? (
              <>
                {state(instance.ca_backend.status)} <span class="quiet">{instance.ca_backend.reason}</span>
              </>
            ) : (
              'unknown'
            ),
          ],
          [
            'HSM tokens',
            instance !== null &&
              instance.ca_backend.tokens.length > 0 &&
              instance.ca_backend.tokens.map(({ issuer, status }) => (
                <span key={issuer}>
                  {issuer} {state(status)}{' '}
                </span>
              )),
          ],
          ...data.other_cas.map((ca) => [`CA ${ca.backend}`, <OtherCaState ca={ca} />] as const),
          ['Name servers', instance?.dns_resolver && state(instance.dns_resolver)],
          ['CRL', <CrlState crl={data.crl} />],
          ['Mail', <MailState mail={data.notifications} />],
          ...data.consumers.map(
            (consumer) => [`Events to ${consumer.name}`, <ConsumerState consumer={consumer} />] as const,
          ),
          ...switchesOf(data).map(
            (one) =>
              [
                one.words.title,
                <>
                  <a href={href('/operation')}>
                    {one.isOn ? one.words.on : one.words.off}
                    {one.isOn && since(one.since.since, one.since.set_by)}
                  </a>{' '}
                  <SwitchButton {...one} reload={reload} />
                </>,
              ] as const,
          ),
        ]}
      />
    </Section>
  )
}

/** No probe asks this CA, so it is never green. */
const OtherCaState = ({ ca: { last_issued_at, open, failures } }: { ca: Overview['other_cas'][number] }) => (
  <>
    {failures > 0 && <Badge tone="bad">failing</Badge>} last certificate <Time at={last_issued_at} />,{' '}
    <span class="quiet">
      {countText(open)} open{failures > 0 && `, the worst after ${counted(failures, 'failure')} in a row`}; it is not
      asked by itself
    </span>
  </>
)

const DatabaseState = ({ instance }: { instance: NonNullable<Overview['instance']> }) => (
  <>
    {state(instance.database)}{' '}
    <span class="quiet">
      {instance.pool.max - instance.pool.size + instance.pool.available} of {instance.pool.max} connections free
    </span>
  </>
)

/** Shows the result of the last attempt, for a new mail or a repeated one. */
function MailState({
  mail: { waiting, last_sent_at: sentAt, last_failure: failure, failing_since: since },
}: {
  mail: Overview['notifications']
}) {
  return (
    <>
      {since !== null && (
        <>
          <Badge tone="bad">failing</Badge> since <Time at={since} />,{' '}
        </>
      )}
      {since === null && sentAt !== null && state('ok')}{' '}
      <LinkTo needs="listNotifications" to={href('/notifications')}>
        {sentAt === null ? (
          'no mail is known to have been sent'
        ) : (
          <>
            last sent <Time at={sentAt} />
          </>
        )}
      </LinkTo>
      ,{' '}
      <span class="quiet">
        {countText(waiting)} waiting
        {since !== null && failure !== null && (
          <>
            ; last attempt <Time at={failure.at} />: {failure.error}
          </>
        )}
      </span>
    </>
  )
}

function ConsumerState({ consumer }: { consumer: Overview['consumers'][number] }) {
  const { waiting, behind, last_failure: failure } = consumer
  return (
    <>
      {behind ? <Badge tone="warn">behind</Badge> : <Badge>{`${countText(waiting)} waiting`}</Badge>}{' '}
      {failure && (
        <span class="quiet">
          last undelivered <Time at={failure.at} />: {failure.error}
        </span>
      )}
    </>
  )
}

function CrlState({ crl }: { crl: Overview['crl'] }) {
  if (!crl.enabled) return <>not published</>
  const oldest = [...crl.lists].sort((a, b) => a.this_update.localeCompare(b.this_update))[0]
  return (
    <>
      {crl.stale ? <Badge tone="bad">stale</Badge> : oldest && state('ok')}{' '}
      <a href={href('/crl')}>{oldest ? <Time at={oldest.this_update} relative={false} /> : 'no CRL yet'}</a>{' '}
      <span class="quiet">{countText(crl.lists.reduce((sum, { entries }) => sum + entries, 0))} revoked</span>
    </>
  )
}

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
