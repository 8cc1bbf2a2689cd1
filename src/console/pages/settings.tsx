/** The configuration in force, read-only: every key, where its value is from, and what a SIGHUP would change. */

import { type Output, useApi } from '../api.ts'
import { Badge, Empty, Ready } from '../components/basics.tsx'
import { type Filter, FilterBar } from '../components/filter-bar.tsx'
import { Page } from '../components/page.tsx'
import { type Column, Table } from '../components/table.tsx'
import { countText } from '../format.ts'
import type { PageProps, Query } from '../router.ts'
import { WORDS } from '../words.ts'

type Settings = Output<'getSettings'>
type Setting = Settings['settings'][number]

const valueText = (value: unknown): string =>
  value === null || value === undefined ? '–' : typeof value === 'string' ? value : JSON.stringify(value)

const sourceText = ({ source, variable }: Setting): string =>
  variable === null ? (source ?? '') : `${WORDS.settings.sources.variable} ${variable}`

const COLUMNS: readonly Column<Setting>[] = [
  {
    head: WORDS.settings.key,
    kind: 'wide',
    cell: ({ key, description }) => (
      <>
        <code>{key}</code>
        <br />
        <span class="quiet">{description}</span>
      </>
    ),
  },
  {
    head: WORDS.settings.value,
    kind: 'wide',
    cell: ({ value, unit }) => (
      <>
        <code>{valueText(value)}</code> {value !== null && unit}
      </>
    ),
  },
  { head: WORDS.settings.source, cell: (setting) => sourceText(setting) },
  { head: WORDS.settings.takesEffect, cell: ({ reload }) => WORDS.settings.reload[reload] },
]

const FILTERS: readonly Filter[] = [
  { name: 'part', label: WORDS.table.filter, type: 'search', placeholder: 'rate_limits' },
  {
    name: 'source',
    label: WORDS.settings.source,
    options: [
      ['set', WORDS.settings.sources.set],
      ['default', WORDS.settings.sources.default],
    ],
  },
]

const fits = ({ part = '', source }: Query, setting: Setting): boolean =>
  `${setting.key} ${setting.description}`.toLowerCase().includes(part.toLowerCase()) &&
  (!source || (source === 'default') === (setting.source === 'default'))

export function SettingsPage({ query }: PageProps) {
  const loaded = useApi('getSettings', {})
  return (
    <Page
      title={WORDS.pages.settings}
      actions={
        <button type="button" onClick={loaded.reload}>
          {WORDS.settings.again}
        </button>
      }
    >
      <p class="quiet">{WORDS.settings.about}</p>
      <Ready loaded={loaded}>
        {({ settings, file }) => {
          const shown = settings.filter((setting) => fits(query, setting))
          return (
            <>
              <FileState file={file} />
              <FilterBar query={query} filters={FILTERS} />
              <Table
                caption={WORDS.pages.settings}
                rows={shown}
                columns={COLUMNS}
                rowKey={({ key }) => key}
                empty={<Empty title={WORDS.table.noMatch} />}
              />
              <p class="quiet foot">{WORDS.table.shown(countText(shown.length))}</p>
            </>
          )
        }}
      </Ready>
    </Page>
  )
}

function FileState({ file }: Pick<Settings, 'file'>) {
  if (file === null) return <p class="bar">{WORDS.settings.noFile}</p>
  if (file.errors.length > 0)
    return (
      <div class="bar bad" role="alert">
        <div>
          <strong>{WORDS.settings.broken}</strong>
          <ul>
            {file.errors.map((error) => (
              <li key={error}>{error}</li>
            ))}
          </ul>
        </div>
      </div>
    )
  if (file.changes.length === 0) return <p class="bar">{WORDS.settings.same(file.path)}</p>
  return (
    <Table
      caption={WORDS.settings.changes(file.path)}
      showCaption
      rows={file.changes}
      rowKey={({ key }) => key}
      columns={[
        { head: WORDS.settings.key, kind: 'wide', cell: ({ key }) => <code>{key}</code> },
        { head: WORDS.settings.inFile, kind: 'wide', cell: ({ value }) => <code>{valueText(value)}</code> },
        {
          head: WORDS.settings.takesEffect,
          cell: ({ by }) => <Badge tone={by === 'SIGHUP' ? 'good' : 'warn'}>{WORDS.settings.by[by]}</Badge>,
        },
      ]}
    />
  )
}
