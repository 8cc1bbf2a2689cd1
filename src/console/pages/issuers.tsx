/** The CAs: how long they live, their chains to save, and how clients come to trust them. */

import { call, type Output, useList } from '../api.ts'
import { Badge, Copyable, Empty, Time } from '../components/basics.tsx'
import { Page } from '../components/page.tsx'
import { type Column, List } from '../components/table.tsx'
import { tell } from '../components/toast.tsx'
import { saveFile } from '../format.ts'
import { href, type PageProps } from '../router.ts'

type Issuer = Output<'listIssuers'>[number]

const saveChain = (fingerprint: string) =>
  call('getIssuerChain', { params: { fingerprint } }).then(
    (pem) => saveFile(`chain-${fingerprint.slice(0, 8)}.pem`, 'application/x-pem-file', pem),
    (error: Error) => tell(error.message, 'bad'),
  )

const COLUMNS: readonly Column<Issuer>[] = [
  {
    head: 'Subject',
    kind: 'wide',
    cell: ({ subject, fingerprint, public_key }) => (
      <>
        {subject} <span class="quiet">{public_key.type}</span>
        <br />
        <code class="quiet">{fingerprint}</code>
      </>
    ),
  },
  {
    head: 'Signs as',
    cell: ({ id }) => (id === null ? <Badge>retired</Badge> : <Badge tone="good">{id}</Badge>),
  },
  { head: 'Until', kind: 'fixed', cell: ({ not_after }) => <Time at={not_after} /> },
  { head: 'Chain', cell: ({ above }) => above.map(({ subject }) => subject).join(' ← ') },
  {
    head: 'Actions',
    kind: 'fixed',
    cell: ({ fingerprint }) => (
      <div class="actions left">
        <button type="button" class="small" onClick={() => saveChain(fingerprint)}>
          Save chain
        </button>
        <a href={href('/certificates', { issuer: fingerprint })}>View certificates</a>
      </div>
    ),
  },
]

const TRUST: readonly (readonly [where: string, command: string])[] = [
  ['Debian, Ubuntu', 'cp root.pem /usr/local/share/ca-certificates/internal-ca.crt && update-ca-certificates'],
  ['Fedora, RHEL', 'cp root.pem /etc/pki/ca-trust/source/anchors/ && update-ca-trust'],
  ['Windows', 'certutil -addstore Root root.pem'],
  ['certbot', 'REQUESTS_CA_BUNDLE=root.pem certbot …'],
  ['lego', 'LEGO_CA_CERTIFICATES=root.pem lego …'],
  ['Fingerprint (SHA-256)', 'openssl x509 -in root.pem -noout -fingerprint -sha256'],
]

export function IssuersPage({ entry }: PageProps) {
  const list = useList('listIssuers', {}, entry)
  return (
    <Page title="Issuers">
      <p class="quiet">
        The CAs that have signed, retired ones included. Clients have to trust the last one of a chain.
      </p>
      <List
        caption="Issuers"
        list={list}
        columns={COLUMNS}
        rowKey={({ fingerprint }) => fingerprint}
        empty={<Empty title="No issuers yet" />}
      />
      <details>
        <summary>How clients trust the root</summary>
        <p>Save the chain, and give the last certificate of it to the clients, as root.pem:</p>
        {TRUST.map(([where, command]) => (
          <div key={where} class="section">
            <h3>{where}</h3>
            <Copyable text={command} block />
          </div>
        ))}
        <p class="quiet">Compare its fingerprint over a second channel, such as the telephone, before you trust it.</p>
      </details>
    </Page>
  )
}
