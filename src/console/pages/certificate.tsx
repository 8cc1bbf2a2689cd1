/** One certificate as a person reads it, with what can be done about it. */

import { AdminApiError, call, type Output } from '../api.ts'
import {
  AccountLink,
  Badge,
  Button,
  Copyable,
  Empty,
  Facts,
  Problem,
  Ready,
  Skeleton,
  Time,
} from '../components/basics.tsx'
import { type Column, factsOf } from '../components/columns.tsx'
import { saveFile } from '../components/csv.tsx'
import { Action } from '../components/dialog.tsx'
import { LoadedPage } from '../components/loaded.tsx'
import { Page, Section, tell } from '../components/page.tsx'
import { Table, TableSection } from '../components/table.tsx'
import { counted, derOf } from '../format.ts'
import { KEY_COMPROMISE, RENEWAL_ADVICE, REVOCATION_REASONS } from '../labels.ts'
import { href, type PageProps } from '../router.ts'
import { useApi } from '../use-api.ts'
import { CertificateStatus, shortId } from './certificates.tsx'
import { Evidence } from './orders.tsx'

type Certificate = Output<'getCertificate'>
type Details = Output<'getCertificateDetails'>

export function CertificatePage({ params }: PageProps) {
  const serial = params['serial'] ?? ''
  const loaded = useApi('getCertificateDetails', { params: { serial } })
  if (isNotFound(loaded.error)) return <WithoutDetails serial={serial} />
  return (
    <LoadedPage
      loaded={loaded}
      title={(details) => details?.certificate.san_values[0] ?? 'Certificate'}
      actions={({ certificate }) => <CertificateActions certificate={certificate} reload={loaded.reload} />}
    >
      {(details) => (
        <>
          <Summary details={details} />
          <TableSection
            caption="Extensions"
            columns={EXTENSION_COLUMNS}
            rows={details.extensions}
            rowKey={({ name }) => name}
          />
          <Chain details={details} />
          {details.certificate.order_id !== null && <OrderOf id={details.certificate.order_id} />}
        </>
      )}
    </LoadedPage>
  )
}

const isNotFound = (error: unknown): error is AdminApiError => error instanceof AdminApiError && error.status === 404

/** Saves the certificate, asks its client to renew it, or revokes it. */
function CertificateActions({ certificate, reload }: { certificate: Certificate; reload: () => void }) {
  const { serial_number: serial, revoked_at, not_after } = certificate
  const isAlive = revoked_at === null && Date.parse(not_after) > Date.now()
  const save = (name: string, content: Promise<string | Uint8Array<ArrayBuffer>>) =>
    content.then(
      (bytes) => saveFile(name, 'application/octet-stream', bytes),
      (error: Error) => tell(error.message, 'bad'),
    )
  const pem = () => call('getCertificatePem', { params: { serial } })
  const chain = () => call('getCertificateChain', { params: { serial } })
  return (
    <div class="actions">
      <Button text="Save PEM" onClick={() => save(`${serial}.pem`, pem())} />
      <Button text="Save DER" onClick={() => save(`${serial}.der`, pem().then(derOf))} />
      <Button text="Save chain" onClick={() => save(`${serial}-chain.pem`, chain())} />
      {isAlive && (
        <Action
          needs="adviseRenewal"
          action="Ask to renew now"
          title="Ask the client to renew now"
          consequence={RENEWAL_ADVICE}
          onConfirm={() => call('adviseRenewal', { body: { filter: { serial_numbers: [serial] } } })}
          done="Renewal information now asks the client to renew."
          onDone={reload}
        />
      )}
      {revoked_at === null && <Revoke certificate={certificate} onDone={reload} />}
    </div>
  )
}

const Revoke = ({
  certificate: { serial_number: serial, san_values },
  onDone,
}: {
  certificate: Certificate
  onDone: () => void
}) => (
  <Action
    needs="revokeCertificate"
    kind="danger"
    text="Revoke …"
    title="Revoke this certificate"
    action="Revoke"
    consequence={
      <>
        <p>
          Clients that check the CRL refuse {san_values.join(', ')} once the next CRL is out. This cannot be undone. The
          ACME client is not told, unless it asks for renewal information.
        </p>
        <p class="quiet">
          <code>{serial}</code>
        </p>
      </>
    }
    fields={{
      reason: {
        label: 'Reason',
        value: '0',
        options: Object.entries(REVOCATION_REASONS),
        help: ({ reason }) =>
          reason === KEY_COMPROMISE
            ? 'The key is blocked for good: the client needs a new one for its next certificate.'
            : 'The key is not blocked: only keyCompromise does that.',
      },
    }}
    onConfirm={({ reason }) => call('revokeCertificate', { params: { serial }, body: { reason: Number(reason) } })}
    done={`The certificate ${serial} is revoked.`}
    onDone={onDone}
  />
)

/** A certificate that is unknown, or known by issuer and serial number only. */
function WithoutDetails({ serial }: { serial: string }) {
  const { data, error, isLoading } = useApi('getCertificate', { params: { serial } })
  return (
    <Page title="Certificate">
      {isNotFound(error) ? (
        <Empty title={error.message}>
          <a href={href('/certificates')}>Certificates</a>
        </Empty>
      ) : (
        <Problem error={error} />
      )}
      {isLoading && data === undefined && <Skeleton />}
      {data && (
        <>
          <p>Only issuer and serial number are known: the certificate itself is lost.</p>
          <Facts rows={factsOf(data, KNOWN)} />
        </>
      )}
    </Page>
  )
}

const KNOWN: readonly Column<Certificate>[] = [
  { head: 'Serial number', member: 'serial_number', kind: 'copy' },
  { head: 'Status', cell: (certificate) => <CertificateStatus certificate={certificate} /> },
  { head: 'Until', member: 'not_after', kind: 'time' },
  { head: 'Issuer', member: 'issuer_fingerprint' },
]

function Summary({ details }: { details: Details }) {
  const { certificate, profile, subject, issuer, public_key, signature_algorithm, renewal } = details
  const { account_id, account_name, san_values, revoked_at, revocation_reason, fingerprint } = certificate
  const source = renewal.advised
    ? 'set by an administrator'
    : revoked_at
      ? 'open, since it is revoked'
      : 'from its lifetime'
  return (
    <Facts
      rows={[
        [
          'Status',
          <>
            <CertificateStatus certificate={certificate} />{' '}
            {revoked_at && (
              <>
                <Time at={revoked_at} /> {revocation_reason}
              </>
            )}
          </>,
        ],
        ['Names', <AllNames names={san_values} />],
        ['From', <Time at={certificate.not_before} />],
        ['Until', <Time at={certificate.not_after} />],
        ['Serial number', <Copyable text={certificate.serial_number} />],
        ['Fingerprint (SHA-256)', fingerprint && <Copyable text={fingerprint} />],
        ['Subject', subject],
        ['Issuer', issuer],
        ['Profile', profile],
        ['Key', public_key.type],
        [
          'SPKI (SHA-256)',
          <>
            <Copyable text={public_key.spki_sha256} />{' '}
            <a href={href('/certificates', { spki_sha256: public_key.spki_sha256 })}>Certificates with this key</a>{' '}
            {public_key.blocked && (
              <Badge tone="bad">This key is blocked: no certificate is issued for it any more.</Badge>
            )}
          </>,
        ],
        ['Signature', signature_algorithm],
        ['Account', account_id && <AccountLink key="account" id={account_id} name={account_name} />],
        [
          'Renewal window',
          <>
            <Time at={renewal.window_start} relative={false} /> – <Time at={renewal.window_end} />{' '}
            <span class="quiet">({source})</span> {renewal.replaced && 'A newer order of the account replaces it.'}
          </>,
        ],
        ['Explanation', renewal.explanation_url],
        [
          'CRL entry',
          revoked_at ? `${revocation_reason ?? ''}; in the CRLs built after the revocation` : 'none: not revoked',
        ],
      ]}
    />
  )
}

const NAMES_SHOWN = 5

/** The facts below stay in sight, however many names there are. */
const AllNames = ({ names }: { names: readonly string[] }) => (
  <>
    {names.slice(0, NAMES_SHOWN).join(', ')}
    {names.length > NAMES_SHOWN && (
      <details>
        <summary>{counted(names.length - NAMES_SHOWN, 'more name')}</summary>
        {names.slice(NAMES_SHOWN).join(', ')}
      </details>
    )}
  </>
)

const EXTENSION_COLUMNS: readonly Column<Details['extensions'][number]>[] = [
  { head: 'Extension', member: 'name', kind: 'fixed' },
  { head: 'Critical', kind: 'fixed', cell: ({ critical }) => (critical ? 'yes' : 'no') },
  {
    head: 'Values',
    kind: 'wide',
    cell: ({ values }) =>
      values.map((value) => (
        <div key={value}>
          <code>{value}</code>
        </div>
      )),
  },
]

const CHAIN_COLUMNS: readonly Column<Details['chain'][number]>[] = [
  { head: 'Subject', member: 'subject', kind: 'wide' },
  { head: 'Until', member: 'not_after', kind: 'time' },
  { head: 'Fingerprint (SHA-256)', member: 'fingerprint', kind: 'code' },
]

const LOG_COLUMNS: readonly Column<Details['timestamps'][number]>[] = [
  { head: 'Log', member: 'log_url', kind: 'wide' },
  { head: 'Signed', member: 'signed_at', kind: 'time' },
  { head: 'Signature checked', kind: 'fixed', cell: ({ verified }) => (verified ? 'yes' : 'no') },
]

function Chain({ details: { chain, timestamps } }: { details: Details }) {
  return (
    <>
      <Section title="Chain">
        <Table
          caption="From the issuer upwards."
          columns={CHAIN_COLUMNS}
          rows={chain}
          rowKey={({ fingerprint }) => fingerprint}
        />
      </Section>
      {timestamps.length > 0 && (
        <TableSection
          caption="Signed timestamps of transparency logs"
          columns={LOG_COLUMNS}
          rows={timestamps}
          rowKey={({ log_url }) => log_url}
        />
      )}
    </>
  )
}

/** Orders are pruned before certificates; then nothing is known of the validation. */
function OrderOf({ id }: { id: string }) {
  const loaded = useApi('getOrder', { params: { order_id: id } })
  if (isNotFound(loaded.error))
    return (
      <p class="quiet">No evidence is kept: the authorization was deleted by retention, or the order was imported.</p>
    )
  return (
    <Section title="How the names were validated">
      <p class="quiet">
        Order <a href={href(`/orders/${id}`)}>{shortId(id)}</a>
      </p>
      <Ready loaded={loaded}>
        {({ authorizations }) =>
          authorizations.map((authorization) => <Validation key={authorization.id} authorization={authorization} />)
        }
      </Ready>
    </Section>
  )
}

function Validation({ authorization }: { authorization: Output<'getAuthorization'> }) {
  const { id, wildcard, identifier, status, evidence } = authorization
  return (
    <div class="section">
      <h3>
        <a href={href(`/authorizations/${id}`)}>Validation of {`${wildcard ? '*.' : ''}${identifier.value}`}</a>{' '}
        <Badge tone={status === 'valid' ? 'good' : 'plain'}>{status}</Badge>
      </h3>
      {evidence ? <Evidence record={evidence} /> : <p class="quiet">No attempt is recorded.</p>}
    </div>
  )
}
