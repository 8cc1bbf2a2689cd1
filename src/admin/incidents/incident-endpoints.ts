/** `/incidents`: what a leaked key, or another trouble, concerns; what is done about it, and how far that is. */

import type { CommonQueryMethods } from 'slonik'
import * as z from 'zod/v4'
import { requireFound } from '../../domain/admin-error.ts'
import type { Actor } from '../../domain/administrator.ts'
import { readReport, UnreadableReport } from '../../domain/incident.ts'
import { canonicalName } from '../../shared/protocol/identifier.ts'
import { endpoint, endpointGroup } from '../admin-endpoint.ts'
import { bulkRevocationAct } from '../approvals/acts.ts'
import { accountNameMember } from '../certificates/account-list.ts'
import type { AdminContext } from '../context.ts'
import { audienceOf, previewMail } from '../owner-mails.ts'
import { offsetParameters, readByOffset } from '../pages.ts'
import { belowName, withKeyType, withName } from '../resources/certificates.ts'
import { findBlockedKey } from '../revocations/blocked-key-endpoints.ts'
import { listResults } from '../revocations/bulk-revocation-store.ts'
import { text, uuid } from '../schemas.ts'
import { requireAuthority } from '../users/sessions.ts'
import { beginIncident } from './begin-incident.ts'
import {
  Incident,
  type IncidentFilter,
  IncidentMail,
  IncidentOwner,
  IncidentSummary,
  incidentBody,
  KeyAccount,
  keyAccountBody,
  NewIncident,
  ownerBody,
  summaryBody,
  unreadable,
} from './incident-bodies.ts'
import {
  findHits,
  findIncident,
  findOwners,
  type Incident as IncidentRow,
  isCredential,
  listIncidents,
  MOST_OWNERS,
  nameOf,
  outcomesByOwner,
} from './incident-store.ts'

const OutcomeOfOwner = z
  .strictObject({
    account_id: z.uuid().nullable(),
    account_name: accountNameMember(),
    contacts: z.array(z.string()),
    certificates: z.int().meta({ description: 'That the bulk revocation found.' }),
    not_revoked: z.int().meta({ description: 'Of them, those that are valid now.' }),
  })
  .meta({ id: 'IncidentOutcomeOfOwner' })

const ReportLine = z
  .union([
    z.strictObject({ incident: Incident }),
    z.strictObject({ owner: OutcomeOfOwner }),
    z.strictObject({
      certificate: z.strictObject({
        serial_number: z.string(),
        names: z.array(z.string()),
        account_id: z.uuid().nullable(),
        outcome: z.string().nullable().meta({ description: 'Null until its turn.' }),
      }),
    }),
  ])
  .meta({ id: 'IncidentReportLine' })
type ReportLine = z.input<typeof ReportLine>

/** A certificate with its chain fits. */
const MOST_OF_A_REPORT = 65_536
const OWNERS_SHOWN = 200

const Examination = z
  .strictObject({
    filter: z.record(z.string(), z.string()).meta({ description: 'For the incident.' }),
    read_as: z.string().meta({ description: 'What the text was taken for.' }),
    certificates: z.int().meta({ description: 'Unexpired ones that are not revoked.' }),
    already_revoked: z.int(),
    key_blocked: z.boolean().nullable().meta({ description: 'Null where it is not about a key.' }),
    key_account: KeyAccount.nullable().meta({ description: 'The account that has the key; a block ends it.' }),
    owners: z.array(IncidentOwner).meta({ description: `The first ${OWNERS_SHOWN}, the most certificates first.` }),
    owners_total: z.int(),
    owners_cut: z.boolean().meta({ description: 'There are more owners than were counted.' }),
  })
  .meta({ id: 'IncidentExamination' })

const params = z.strictObject({ incident_id: uuid() })

export const INCIDENTS = endpointGroup('Incidents', {
  examineIncident: endpoint({
    route: 'POST /incidents/examine',
    permission: 'read',
    body: z.strictObject({
      text: text(MOST_OF_A_REPORT).meta({
        description:
          'A public key, certificate or CSR as PEM; a JWK; SHA-256 of a SubjectPublicKeyInfo; the id or URL of an account; a kid; a type of key such as RSA-below-3072; a name. A private key is refused.',
      }),
      below: z.boolean().default(false).meta({ description: 'A name, and all below it.' }),
    }),
    reply: { status: 200, schema: Examination },
    async handle({ body }, { db }) {
      const { filter, readAs } = await recognize(db, body.text, body.below)
      const { unrevoked, revoked, owners, isCut } = await findHits(db, filter)
      const { spki_sha256 } = filter
      return {
        body: {
          filter: filter as Record<string, string>,
          read_as: readAs,
          certificates: unrevoked,
          already_revoked: revoked,
          key_blocked: spki_sha256 === undefined ? null : (await findBlockedKey(db, spki_sha256)) !== null,
          key_account: spki_sha256 === undefined ? null : await keyAccountBody(db, spki_sha256),
          owners: owners.slice(0, OWNERS_SHOWN).map(ownerBody),
          owners_total: owners.length,
          owners_cut: isCut,
        },
      }
    },
  }),
  previewIncidentMail: endpoint({
    route: 'POST /incidents/mail-preview',
    permission: 'operate',
    body: IncidentMail,
    reply: {
      status: 200,
      schema: z.strictObject({
        enabled: z.boolean().meta({ description: 'Whether mail is sent at all.' }),
        accounts: z.int(),
        mails: z.int(),
        without_contact: z.int().meta({ description: 'Accounts that cannot be written to.' }),
        subject: z.string().nullable().meta({ description: 'Of the first mail; null when there is none.' }),
        text: z.string().nullable(),
      }),
    },
    async handle({ body: { filter, remark = '', ...chosen } }, { db, mail }) {
      const hits = await findHits(db, filter)
      const actions = { ...chosen, block_key: false, advise_renewal: false, tell_owners: true }
      const { subject = null, text = null } = previewMail(mail, hits, actions, remark) ?? {}
      const { accounts, mails, withoutContact } = audienceOf(hits)
      return { body: { enabled: mail.isEnabled, accounts, mails, without_contact: withoutContact, subject, text } }
    },
  }),
  beginIncident: endpoint({
    route: 'POST /incidents',
    permission: 'operate',
    body: NewIncident,
    reply: { status: 201, schema: Incident },
    audit: 'incident.begin',
    recentSignIn: ({ body }) => body.revoke,
    approval: async ({ body: { filter, reason, revoke, confirm_count } }, context) =>
      revoke ? bulkRevocationAct({ filter, reason, isDryRun: false, confirmed: confirm_count }, context) : undefined,
    async handle(
      { body: { filter, remark = '', confirm_count: confirmCount, ...actions }, author, approved },
      context,
    ) {
      const wanted = { filter, actions, confirmCount, remark, approved: approved?.most ?? undefined }
      const begun = await beginIncident(context, author, wanted)
      return { body: await incidentBody(context, begun) }
    },
  }),
  listIncidents: endpoint({
    route: 'GET /incidents',
    permission: 'read',
    query: z.strictObject(offsetParameters()),
    reply: { status: 200, schema: z.array(IncidentSummary) },
    async handle({ query }, { db, pages }) {
      const { rows, next } = await readByOffset(query, pages, (page) => listIncidents(db, page))
      return { body: rows.map(summaryBody), next }
    },
  }),
  getIncident: endpoint({
    route: 'GET /incidents/{incident_id}',
    permission: 'read',
    params,
    reply: { status: 200, schema: Incident },
    handle: async ({ params }, context) => ({
      body: await incidentBody(context, await requireIncident(context.db, params.incident_id)),
    }),
  }),
  listIncidentOwners: endpoint({
    route: 'GET /incidents/{incident_id}/owners',
    permission: 'read',
    params,
    reply: { status: 200, schema: z.array(OutcomeOfOwner) },
    async handle({ params }, { db }) {
      const { job_id } = await requireIncident(db, params.incident_id)
      return { body: job_id === null ? [] : await outcomes(db, job_id, OWNERS_SHOWN) }
    },
  }),
  getIncidentReport: endpoint({
    route: 'GET /incidents/{incident_id}/report',
    permission: 'read',
    params,
    reply: { status: 200, schema: ReportLine, contentType: 'application/x-ndjson' },
    async handle({ params, author }, context) {
      const incident = await requireIncident(context.db, params.incident_id)
      return { lines: reportLines(context, author, incident) }
    },
  }),
})

type Filter = z.output<typeof IncidentFilter>

/** @throws AdminError invalid_request, without a word of what was sent */
async function recognize(
  db: CommonQueryMethods,
  sent: string,
  below: boolean,
): Promise<{ filter: Filter; readAs: string }> {
  try {
    const reported = readReport(sent)
    if (reported.kind === 'key') return { filter: { spki_sha256: reported.spkiSha256 }, readAs: reported.readAs }
    if (reported.kind === 'account') return { filter: { account_id: reported.id }, readAs: 'an account' }
    if (await isCredential(db, reported.text))
      return { filter: { eab_kid: reported.text }, readAs: 'the kid of a credential' }
    const ofType = below ? undefined : withKeyType(reported.text)
    if (ofType) return { filter: ofType, readAs: 'a type of key' }
    const name = canonicalName(reported.text)
    if (name === '') throw new UnreadableReport('this is no name')
    return below
      ? { filter: belowName(name), readAs: 'a name, and all below it' }
      : { filter: withName(name), readAs: 'a name' }
  } catch (error) {
    throw error instanceof UnreadableReport ? unreadable(error.message) : error
  }
}

const requireIncident = async (db: CommonQueryMethods, id: string) =>
  requireFound(await findIncident(db, id), 'incident')

/** Certificates of the report that are read at once. */
const PAGE = 500

/** @throws AdminError as soon as the author may no longer read on */
async function* reportLines(
  context: Pick<AdminContext, 'db' | 'policy'>,
  author: Actor,
  row: IncidentRow,
): AsyncGenerator<string> {
  const { db } = context
  const line = (one: ReportLine) => JSON.stringify(one)
  yield line({ incident: await incidentBody(context, row) })
  if (row.job_id === null) return
  for (const owner of await outcomes(db, row.job_id, MOST_OWNERS)) yield line({ owner })
  for (let afterId: string | undefined; ; ) {
    await requireAuthority(db, author)
    const found = await listResults(db, row.job_id, { afterId, limit: PAGE })
    if (found.length > 0)
      yield found
        .map(({ serial_number, names, account_id, outcome }) =>
          line({ certificate: { serial_number, names, account_id, outcome } }),
        )
        .join('\n')
    if (found.length < PAGE) return
    afterId = found.at(-1)?.certificate_id
  }
}

/** Counts by owner what a job has done so far, the most certificates first. */
async function outcomes(db: CommonQueryMethods, jobId: string, limit: number) {
  const found = await outcomesByOwner(db, jobId, limit)
  const owners = await findOwners(
    db,
    found.flatMap(({ account_id }) => account_id ?? []),
  )
  return found.map(({ account_id, certificates, not_revoked }) => {
    const owner = owners.get(account_id ?? '')
    return { account_id, account_name: nameOf(owner), contacts: owner?.contacts ?? [], certificates, not_revoked }
  })
}
