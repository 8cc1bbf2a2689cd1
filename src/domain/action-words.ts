/** Acts of administrators and of ACME clients, and times, in words for the console, mails and commands. Pure. */

/** The first part of an action. */
const SUBJECTS: Readonly<Record<string, string>> = {
  acme: 'ACME client',
  auth: 'Sign-in',
  user: 'User',
  token: 'API token',
  approval: 'Approval',
  eab: 'EAB credential',
  identifier: 'Allowed identifier',
  csr_profile: 'CSR profile',
  account: 'Account',
  certificate: 'Certificate',
  import: 'Import',
  incident: 'Incident',
  key: 'Key',
  renewal: 'Renewal',
  crl: 'CRL',
  notification: 'Notification',
  event: 'Event',
  backend: 'CA backend',
  audit: 'Audit log',
  maintenance: 'Maintenance',
  signing: 'Signing',
  terms: 'Terms of service',
  settings: 'Settings',
  database: 'Database',
}

/** `EAB credential: add identifier` for `eab.add_identifier`. */
export function actionText(action: string): string {
  const [subject = '', verb = ''] = action.split('.')
  return `${SUBJECTS[subject] ?? subject}: ${verb.replaceAll('_', ' ')}`
}

/** To the second. */
export const utcText = (at: Date): string => `${at.toISOString().slice(0, 19).replace('T', ' ')} UTC`
