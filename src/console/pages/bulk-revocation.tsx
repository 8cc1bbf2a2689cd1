/** bulkRevocation */

import { Page } from '../components/page.tsx'
import { WORDS } from '../words.ts'

export const BulkRevocationPage = () => <Page title={WORDS.pages.bulkRevocation}>{null}</Page>
