/** certificates */

import { Page } from '../components/page.tsx'
import { WORDS } from '../words.ts'

export const CertificatesPage = () => <Page title={WORDS.pages.certificates}>{null}</Page>
