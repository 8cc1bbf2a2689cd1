/** How the service runs: the configuration in force, read-only; and the two switches, with the background tasks. */

import type { Output } from '../api.ts'
import { Badge, Button, Empty, Facts, Freshness, Ready, Time } from '../components/basics.tsx'
import { type Column, factsOf } from '../components/columns.tsx'
import { FilterBar } from '../components/filters.tsx'
import { LoadedTable } from '../components/loaded.tsx'
import { Page, Section } from '../components/page.tsx'
import { Table } from '../components/table.tsx'
import { countText } from '../format.ts'
import type { PageProps, Query } from '../router.ts'
import { POLL_MS, useApi } from '../use-api.ts'
import { type Switch, SwitchButton, switchesOf } from './overview-health.tsx'

type Settings = Output<'getSettings'>
type Setting = Settings['settings'][number]

const valueText = (value: unknown): string =>
  value === null || value === undefined ? '–' : typeof value === 'string' ? value : JSON.stringify(value)

const sourceText = ({ source, variable }: Setting): string =>
  variable === null ? (source ?? '') : `variable ${variable}`

const COLUMNS: readonly Column<Setting>[] = [
  {
    head: 'Key',
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
    head: 'Value',
    kind: 'wide',
    cell: ({ value, unit }) => (
      <>
        <code>{valueText(value)}</code> {value !== null && unit}
      </>
    ),
  },
  { head: 'Source', cell: (setting) => sourceText(setting) },
  { head: 'Takes effect', cell: ({ reload }) => (reload === 'live' ? 'SIGHUP' : 'restart') },
]

const FILTERS = {
  part: { kind: 'line', label: 'Search', example: 'rate_limits', field: true },
  source: { kind: { set: 'Set in the file', default: 'Default' }, label: 'Source', field: true },
} as const

const fits = ({ part = '', source }: Query, setting: Setting): boolean =>
  `${setting.key} ${setting.description}`.toLowerCase().includes(part.toLowerCase()) &&
  (!source || (source === 'default') === (setting.source === 'default'))

export function SettingsPage({ query }: PageProps) {
  const loaded = useApi('getSettings', {})
  return (
    <Page title="Settings" actions={<Button text="Reload" onClick={loaded.reload} />}>
      <p class="quiet">The settings in force on this instance. Secrets are hidden. Change them in the file.</p>
      <Ready loaded={loaded}>
        {({ settings, file }) => {
          const shown = settings.filter((setting) => fits(query, setting))
          const isFiltered = shown.length < settings.length
          return (
            <>
              <FileState file={file} />
              <FilterBar query={query} filters={FILTERS} />
              {shown.length === 0 && <Empty title="No matches" />}
              {sectionsOf(shown).map(([name, rows]) => (
                <SettingsSection key={`${name} ${isFiltered}`} name={name} rows={rows} isOpen={isFiltered} />
              ))}
              <p class="quiet foot">{countText(shown.length)} shown</p>
            </>
          )
        }}
      </Ready>
    </Page>
  )
}

/** Groups the settings by the first part of their keys, in the order of the manual. */
function sectionsOf(settings: readonly Setting[]): (readonly [name: string, rows: readonly Setting[]])[] {
  const sections = new Map<string, Setting[]>()
  for (const setting of settings) {
    const [name = ''] = setting.key.split('.')
    sections.set(name, [...(sections.get(name) ?? []), setting])
  }
  return [...sections]
}

interface SectionProps {
  name: string
  rows: readonly Setting[]
  isOpen: boolean
}

/** A section is closed at first: all keys together are twenty screens. */
function SettingsSection({ name, rows, isOpen }: SectionProps) {
  const set = rows.filter(({ source }) => source !== 'default' && source !== null).length
  return (
    <details class="section" open={isOpen}>
      <summary>
        <h2>{name}</h2> <span class="quiet">{set === 0 ? 'all defaults' : `${set} of ${rows.length} set`}</span>
      </summary>
      <Table caption={`Settings of ${name}`} rows={rows} columns={COLUMNS} rowKey={({ key }) => key} />
    </details>
  )
}

function FileState({ file }: Pick<Settings, 'file'>) {
  if (file === null) return <p class="bar">The service runs without a configuration file.</p>
  if (file.errors.length > 0)
    return (
      <div class="bar bad" role="alert">
        <div>
          <strong>The file is invalid: a SIGHUP would change nothing, and a restart would fail.</strong>
          <ul>
            {file.errors.map((error) => (
              <li key={error}>{error}</li>
            ))}
          </ul>
        </div>
      </div>
    )
  if (file.changes.length === 0) return <p class="bar">{file.path} matches the settings in force.</p>
  return (
    <Table
      caption={`${file.path} differs from the settings in force`}
      showCaption
      rows={file.changes}
      rowKey={({ key }) => key}
      columns={[
        { head: 'Key', kind: 'wide', cell: ({ key }) => <code>{key}</code> },
        { head: 'In the file', kind: 'wide', cell: ({ value }) => <code>{valueText(value)}</code> },
        {
          head: 'Takes effect',
          cell: ({ by }) => (
            <Badge tone={by === 'SIGHUP' ? 'good' : 'warn'}>
              {by === 'SIGHUP' ? 'at the next SIGHUP' : 'at the next start'}
            </Badge>
          ),
        },
      ]}
    />
  )
}

const EVERY = { every: POLL_MS }

const TASKS: readonly Column<Output<'getWorkers'>['tasks'][number]>[] = [
  { head: 'Task', member: 'name', kind: 'fixed' },
  {
    head: 'Instance',
    kind: 'fixed',
    cell: ({ leader, leader_is_alive }) => (leader_is_alive ? leader : `${String(leader)}, gone`),
  },
  { head: 'Last run', member: 'last_run', kind: 'instant' },
  { head: 'Next run', member: 'next_run', kind: 'instant' },
  { head: 'Failures', member: 'errors', kind: 'number' },
  { head: 'Error', member: 'last_error', kind: 'wide' },
]

const SINCE: readonly Column<Switch['since']>[] = [
  { head: 'Since', cell: ({ since }) => since && <Time at={since} /> },
  { head: 'By', member: 'set_by' },
  { head: 'Reason', member: 'reason' },
]

export function OperationPage() {
  const loaded = useApi('getOverview', {}, EVERY)
  const workers = useApi('getWorkers', {}, EVERY)
  return (
    <Page title="Maintenance and signing" actions={<Freshness loaded={loaded} />}>
      <Ready loaded={loaded}>
        {(overview) => (
          <div class="columns">
            {switchesOf(overview).map((one) => (
              <SwitchSection key={one.operation} {...one} reload={loaded.reload} />
            ))}
          </div>
        )}
      </Ready>
      <LoadedTable
        caption="Background tasks"
        loaded={workers}
        rows={({ tasks }) => tasks}
        rowKey={({ name }) => name}
        columns={TASKS}
      />
    </Page>
  )
}

function SwitchSection(one: Switch & { reload: () => void }) {
  const { words, isOn, since } = one
  return (
    <Section
      title={
        <>
          {words.title} <Badge tone={isOn ? 'warn' : 'good'}>{isOn ? words.on : words.off}</Badge>
        </>
      }
    >
      <p class="quiet">{words.about}</p>
      <Facts rows={factsOf(since, SINCE)} />
      <div class="actions left">
        <SwitchButton {...one} />
      </div>
    </Section>
  )
}
