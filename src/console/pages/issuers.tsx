/** The CAs: how long they live, their chains to save, and how clients come to trust them. */

import { call, type Output, useList } from '../api.ts'
import { Badge, Copyable, Empty, Time } from '../components/basics.tsx'
import { Page } from '../components/page.tsx'
import { type Column, List } from '../components/table.tsx'
import { tell } from '../components/toast.tsx'
import { saveFile } from '../format.ts'
import { href, type PageProps } from '../router.ts'
import { WORDS } from '../words.ts'

type Issuer = Output<'listIssuers'>[number]

const words = WORDS.issuers

const saveChain = (fingerprint: string) =>
  call('getIssuerChain', { params: { fingerprint } }).then(
    (pem) => saveFile(words.chainName(fingerprint), 'application/x-pem-file', pem),
    (error: Error) => tell(error.message, 'bad'),
  )

const COLUMNS: readonly Column<Issuer>[] = [
  {
    head: words.subject,
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
    head: words.use,
    cell: ({ id }) => (id === null ? <Badge>{words.retired}</Badge> : <Badge tone="good">{id}</Badge>),
  },
  { head: words.until, kind: 'fixed', cell: ({ not_after }) => <Time at={not_after} /> },
  { head: words.above, cell: ({ above }) => above.map(({ subject }) => subject).join(' ← ') },
  {
    head: WORDS.common.actions,
    kind: 'fixed',
    cell: ({ fingerprint }) => (
      <div class="actions left">
        <button type="button" class="small" onClick={() => saveChain(fingerprint)}>
          {words.chain}
        </button>
        <a href={href('/certificates', { issuer: fingerprint })}>{words.certificates}</a>
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
  [words.fingerprint, 'openssl x509 -in root.pem -noout -fingerprint -sha256'],
]

export function IssuersPage({ entry }: PageProps) {
  const list = useList('listIssuers', {}, entry)
  return (
    <Page title={WORDS.pages.issuers}>
      <p class="quiet">{words.about}</p>
      <List
        caption={WORDS.pages.issuers}
        list={list}
        columns={COLUMNS}
        rowKey={({ fingerprint }) => fingerprint}
        empty={<Empty title={words.empty} />}
      />
      <details>
        <summary>{words.trust}</summary>
        <p>{words.trustAbout}</p>
        {TRUST.map(([where, command]) => (
          <div key={where} class="section">
            <h3>{where}</h3>
            <Copyable text={command} block />
          </div>
        ))}
        <p class="quiet">{words.trustAfter}</p>
      </details>
    </Page>
  )
}
