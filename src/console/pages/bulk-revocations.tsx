/** bulk */

import { Page } from '../components/page.tsx'
import { WORDS } from '../words.ts'

export const BulkRevocationsPage = () => <Page title={WORDS.pages.bulk}>{null}</Page>
