/** certificate */

import { Page } from '../components/page.tsx'
import { WORDS } from '../words.ts'

export const CertificatePage = () => <Page title={WORDS.pages.certificate}>{null}</Page>
