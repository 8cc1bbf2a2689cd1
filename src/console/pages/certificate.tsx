/** One certificate as a person reads it. */

import { AdminApiError, type Output } from '../api.ts'
import { AccountLink, Badge, Copyable, Empty, Facts, Problem, Ready, Time } from '../components/basics.tsx'
import { Page, Section } from '../components/page.tsx'
import { Skeleton } from '../components/skeleton.tsx'
import { type Column, Table, TableSection, timeColumn } from '../components/table.tsx'
import { countText, plural } from '../format.ts'
import { href, type PageProps } from '../router.ts'
import { useApi } from '../use-api.ts'
import { CertificateActions } from './certificate-actions.tsx'
import { CertificateStatus, shortId } from './certificates.tsx'
import { Evidence } from './orders.tsx'

type Details = Output<'getCertificateDetails'>

export function CertificatePage({ params }: PageProps) {
  const serial = params['serial'] ?? ''
  const loaded = useApi('getCertificateDetails', { params: { serial } })
  const { data, error, reload } = loaded
  if (isNotFound(error)) return <WithoutDetails serial={serial} />
  return (
    <Page
      title={data?.certificate.san_values[0] ?? 'Certificate'}
      actions={data && <CertificateActions certificate={data.certificate} onChange={reload} />}
    >
      <Ready loaded={loaded}>
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
      </Ready>
    </Page>
  )
}

const isNotFound = (error: unknown): error is AdminApiError => error instanceof AdminApiError && error.status === 404

/** Unknown, or known by issuer and serial number only. */
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
          <Facts
            rows={[
              ['Serial number', <Copyable key="serial" text={data.serial_number} />],
              ['Status', <CertificateStatus key="status" certificate={data} />],
              ['Until', <Time key="until" at={data.not_after} />],
              ['Issuer', data.issuer_fingerprint],
            ]}
          />
        </>
      )}
    </Page>
  )
}

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
        <summary>{plural(countText(names.length - NAMES_SHOWN), 'more name')}</summary>
        {names.slice(NAMES_SHOWN).join(', ')}
      </details>
    )}
  </>
)

const EXTENSION_COLUMNS: readonly Column<Details['extensions'][number]>[] = [
  { head: 'Extension', kind: 'fixed', cell: ({ name }) => name },
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
  { head: 'Subject', kind: 'wide', cell: ({ subject }) => subject },
  { head: 'Until', kind: 'fixed', cell: ({ not_after }) => <Time at={not_after} /> },
  {
    head: 'Fingerprint (SHA-256)',
    cell: ({ fingerprint }) => <code>{fingerprint}</code>,
  },
]

const LOG_COLUMNS: readonly Column<Details['timestamps'][number]>[] = [
  { head: 'Log', kind: 'wide', cell: ({ log_url }) => log_url },
  timeColumn('Signed', 'signed_at'),
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
