/** Revocation lists as relying parties fetch them: from the URLs in certificates. */

import { crlPolicy, staleCrlAfterMs } from '../../settings/issuance-settings.ts'
import { messageOf } from '../../shared/lib/errors.ts'
import { readAlgorithmIdentifier, verifySignature } from '../../shared/pki/algorithms.ts'
import { parseCertificate } from '../../shared/pki/certificate.ts'
import { readSingle, TAG } from '../../shared/pki/der.ts'
import { type CrlHeader, TbsCertListReader } from '../../shared/pki/tbs-cert-list-reader.ts'
import type { DiagnosisRows } from '../facts/database.ts'
import type { Asked } from '../facts/http.ts'
import { type Check, noAnswer, type Sources } from '../sources.ts'
import { CannotTell, failure, ok, orOk, type Verdict, warning } from '../verdict.ts'

type Row = DiagnosisRows['crls'][number]
/** A list at its URL. */
interface Place {
  url: string
  row: Row | undefined
  /** DER of the certificate; its key has to have signed the list. */
  issuer: Buffer | undefined
}

/** One server has all lists, also where a list is in a thousand parts. */
const MOST_FETCHED = 6

export const CRL: readonly Check[] = [
  {
    id: 'crl.published',
    title: 'There is a list for each issuer',
    async look(sources) {
      if (!sources.config.crl.enabled) return undefined
      const [rows, { issuers }] = await Promise.all([sources.read('crls'), sources.signer()])
      const without = issuers.filter(({ id }) => !rows.some(({ issuerId }) => issuerId === id))
      return orOk(
        without.map(({ id }) =>
          failure(
            `the issuer ${id} has no list`,
            'it needs cRLSign in its certificate; the line crl_failed of the log says what is wrong',
          ),
        ),
        `${rows.length} are published`,
      )
    },
  },
  {
    id: 'crl.plain-http',
    title: 'Lists can be fetched over plain HTTP from where certificates name them',
    look: (sources) =>
      forEach(sources, (place) => sources.fetch(place.url).then((asked) => judgeFetch(place.url, asked))),
  },
  {
    id: 'crl.signature',
    title: 'Lists are signed by their issuers',
    look: (sources) =>
      forEach(sources, async ({ url, issuer }) => {
        const list = await listAt(sources, url)
        if (!issuer) throw new CannotTell(`the issuer of ${url} is not known here`)
        return list.isSignedBy(issuer)
          ? ok(`${url}: by the issuer`)
          : failure(
              `the list at ${url} is not signed by the issuer of its certificates`,
              'see whether the URL leads to this service: ca.crl_url',
            )
      }),
  },
  {
    id: 'crl.fresh',
    title: 'Lists are not older than they should be',
    look: (sources) =>
      forEach(sources, async ({ url }) =>
        judgeAge(url, await listAt(sources, url), new Date(), staleCrlAfterMs(sources.config)),
      ),
  },
  {
    id: 'crl.number',
    title: 'What is fetched is the newest list of the database',
    look: (sources) =>
      forEach(sources, async ({ url, row }) => {
        if (!row) throw new CannotTell(`the database has no list for ${url}`)
        return judgeNumber(url, (await listAt(sources, url)).number, BigInt(row.number))
      }),
  },
  {
    id: 'crl.content-type',
    title: 'Lists are sent as application/pkix-crl',
    look: (sources) =>
      forEach(sources, async ({ url }) => {
        const { answer, who } = await sources.fetch(url)
        if (answer?.status !== 200) throw new CannotTell(`${url} was not fetched`, undefined, who)
        const type = answer.headers['content-type'] ?? 'nothing'
        return type === 'application/pkix-crl'
          ? ok(url)
          : warning(
              `${url} is sent as ${type}`,
              'let the proxy pass Content-Type on: Windows wants application/pkix-crl',
            )
      }),
  },
  {
    id: 'crl.size',
    title: 'Lists are shorter than the signer takes',
    async look(sources) {
      if (!sources.config.crl.enabled || sources.config.ca.signer.socket === null) return undefined
      const rows = await sources.read('crls')
      const { crl_bytes } = sources.signerConfig().limits
      const long = rows.filter(({ bytes }) => Number(bytes) > crl_bytes * 0.8)
      return orOk(
        long.map(({ issuerId, bytes }) =>
          warning(
            `a list of ${issuerId} has ${bytes} bytes, and the signer takes ${crl_bytes}`,
            'raise limits.crl_bytes of the signer, or spread it: crl.shards (docs/operations/crl.md)',
          ),
        ),
        `at most ${crl_bytes} bytes are taken`,
      )
    },
  },
]

async function forEach(sources: Sources, look: (place: Place) => Promise<Verdict>) {
  const { crl, ca } = sources.config
  if (!crl.enabled && ca.crl_url === null) return undefined
  const places = await placesOf(sources)
  if (places.length === 0) throw new CannotTell('there is no list yet')
  return Promise.all(places.map(look))
}

async function placesOf(sources: Sources): Promise<Place[]> {
  const [rows, newest, { issuers }] = await Promise.all([
    sources.read('crls'),
    sources.read('newestCertificate'),
    sources.signer().catch(() => ({ issuers: [] })),
  ])
  const { urlOf } = crlPolicy(sources.config)
  const places: Place[] = rows.map((row) => ({
    url: urlOf(row.issuerId, row.shards, row.shard),
    row,
    issuer: issuers.find(({ id }) => id === row.issuerId)?.certificate,
  }))
  // The settings may have changed since the certificate was issued.
  const [certificate] = newest
  const named = certificate ? parseCertificate(certificate.der).tbs.crlDistributionPointUrls : []
  const others = named.filter((url) => !places.some((place) => place.url === url))
  const added = others.map((url) => ({ url, row: undefined, issuer: certificate?.issuer }))
  return [...added, ...places].slice(0, MOST_FETCHED)
}

async function listAt(sources: Sources, url: string): Promise<CrlFacts> {
  const { answer, failure: why, who } = await sources.fetch(url)
  if (!answer) throw new CannotTell(`${url} was not fetched: ${why}`, undefined, who)
  if (answer.status !== 200) throw new CannotTell(`${url} answers with ${answer.status}`)
  try {
    return readCrl(answer.body)
  } catch (error) {
    throw new CannotTell(`what is at ${url} is no CRL: ${messageOf(error)}`)
  }
}

const SERVE =
  'set crl.http_port: 80, or let the proxy serve the path without TLS and set ca.crl_url (docs/operations/crl.md)'

export function judgeFetch(url: string, asked: Asked): Verdict {
  const { answer } = asked
  if (/^https:/i.test(url))
    return failure(
      `certificates name ${url}, which relying parties cannot fetch while they check TLS (RFC 5280 §8)`,
      SERVE,
    )
  if (!answer) return noAnswer(asked, `${url} cannot be fetched`, SERVE)
  if (answer.status >= 300 && answer.status < 400)
    return failure(
      `${url} is redirected to ${answer.headers.location ?? 'nowhere'}: relying parties do not follow, least of all to https`,
      'take the path of the lists out of the redirection of the proxy (deploy/proxy)',
    )
  if (answer.status !== 200) return failure(`${url} answers with ${answer.status}`, SERVE)
  return ok(`${url} has ${answer.body.length} bytes`)
}

/** Two clocks may differ by this much. */
const SLACK_MS = 60_000

export function judgeAge(
  url: string,
  { thisUpdate, nextUpdate }: Pick<CrlFacts, 'thisUpdate' | 'nextUpdate'>,
  now: Date,
  staleAfterMs: number | undefined,
): Verdict {
  const rebuild =
    'chancery -c FILE crl rebuild says what keeps lists from being built; a cache in between may hold an old one'
  if (nextUpdate !== undefined && nextUpdate < now)
    return failure(`the list at ${url} ended at ${nextUpdate.toISOString()}`, rebuild)
  if (thisUpdate.getTime() > now.getTime() + SLACK_MS)
    return failure(
      `the list at ${url} begins later, at ${thisUpdate.toISOString()}`,
      'compare the clocks of this host and the database',
    )
  const ageMs = now.getTime() - thisUpdate.getTime()
  if (staleAfterMs !== undefined && ageMs > staleAfterMs)
    return failure(`the list at ${url} is of ${thisUpdate.toISOString()}, older than twice its interval`, rebuild)
  return ok(`${url} is of ${thisUpdate.toISOString()}`)
}

export function judgeNumber(url: string, seen: bigint, known: bigint): Verdict {
  if (seen === known) return ok(`${url} has number ${seen}`)
  if (seen < known)
    return warning(
      `the list at ${url} has number ${seen}, the database ${known}: revocations since are not seen there`,
      'a cache in between holds the old one: let it obey Cache-Control; right after a revocation run chancery doctor again',
    )
  return failure(
    `the list at ${url} has number ${seen}, and the database only ${known}`,
    'another database publishes lists of this issuer, or this one went back: docs/operations/crl.md, "One database for an issuer"',
  )
}

interface CrlFacts {
  thisUpdate: Date
  nextUpdate: Date | undefined
  number: bigint
  isSignedBy(issuer: Buffer): boolean
}

/** @throws DerError */
export function readCrl(der: Buffer): CrlFacts {
  const reader = readSingle(der, TAG.sequence, 'CertificateList', false)
  const start = reader.offset
  reader.sequence()
  const tbs = der.subarray(start, reader.offset)
  const { algorithm } = readAlgorithmIdentifier(reader)
  const signature = reader.bitStringOctets()
  let header: CrlHeader | undefined
  const list = new TbsCertListReader({
    header(found) {
      header = found
    },
    entry: () => undefined,
  })
  list.push(tbs)
  const { number } = list.finish()
  return {
    thisUpdate: header!.thisUpdate.at,
    nextUpdate: header!.nextUpdate?.at,
    number: BigInt(`0x${number?.toString('hex') || '0'}`),
    isSignedBy: (issuer) => verifySignature(algorithm, tbs, parseCertificate(issuer).tbs.spki, signature),
  }
}
