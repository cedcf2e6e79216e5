import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeAll, describe, expect, it } from 'vitest'
import { writeMetrics } from '../../src/instruments.ts'
import { PostgresDatabase } from '../../src/storage/postgres/database.ts'
import { readStream } from '../support/chat.ts'
import { namesOf, parseMetrics } from '../support/metrics.ts'
import { projectFolder } from '../support/process.ts'
import { startTestService } from '../support/service.ts'

interface Dashboard {
  readonly templating: { readonly list: readonly unknown[] }
  readonly panels: readonly { readonly title: string; readonly targets: readonly { readonly expr: string }[] }[]
}

function readOps(name: string): string {
  return readFileSync(join(projectFolder, 'ops', name), 'utf8')
}

function alertsOf(text: string): readonly { readonly alert: string; readonly expr: string }[] {
  return [...text.matchAll(/- alert: (\S+)\n +expr: (.+)\n/g)].map(([, alert = '', expr = '']) => ({ alert, expr }))
}

/** Keywords of PromQL, and the metric that Prometheus itself adds. */
const known = new Set(
  'sum max count rate histogram_quantile quantile_over_time last_over_time min_over_time absent by and on up'.split(
    ' ',
  ),
)

/** The metrics in a PromQL expression: the words outside label matchers, groupings, ranges and strings. */
function metricsOf(expr: string): readonly string[] {
  const bare = expr.replace(/\{[^}]*\}|\b(?:by|on) \([^)]*\)|\[[^\]]*\]|\b\d[\d.]*/g, ' ')
  return [...bare.matchAll(/[a-z_][a-z0-9_]*/gi)].map(([word]) => word).filter((word) => !known.has(word))
}

/** The labels that an expression selects or groups by. */
function labelsOf(expr: string): readonly string[] {
  const matched = [...expr.matchAll(/([a-z_]+)(?:=~|!~|!=|=)"/g)].map(([, label = '']) => label)
  const grouped = [...expr.matchAll(/\b(?:by|on) \(([^)]*)\)/g)].flatMap(([, labels = '']) => labels.split(/, */))
  return [...matched, ...grouped]
}

let scraped = ''
/** The metrics of a PostgreSQL database. No connection to it is opened. */
const ofPostgres = writeMetrics(new PostgresDatabase('postgres://127.0.0.1/none').metrics)
const alerts = alertsOf(readOps('alerts.yaml'))
const dashboard: Dashboard = JSON.parse(readOps('grafana.json'))
const panels = dashboard.panels.flatMap(({ title, targets }) => targets.map(({ expr }) => ({ title, expr })))

beforeAll(async () => {
  // The second model has a breaker, and cannot be reached.
  const service = await startTestService(
    {},
    {
      understudy: { adapter: 'understudy' },
      away: { adapter: 'openai', baseUrl: 'http://127.0.0.1:1/v1', retries: 0 },
    },
  )
  try {
    const messages = [{ role: 'user', content: 'Hello' }]
    await (await service.request('/plants', { json: { name: 'Fern' } })).text()
    await (await service.request('/plants?limit=1')).text()
    await readStream(
      await service.request('/chat/completions', { json: { model: 'understudy', messages, stream: true } }),
    )
    await (await service.request('/chat/completions', { json: { model: 'away', messages } })).text()
    scraped = await (await service.request('/metrics')).text()
  } finally {
    await service.close()
  }
})

describe('the files of ops/', () => {
  it('(u) have an entry in the runbook and a test case for each alert, for any name of the scrape job', () => {
    const runbook = readFileSync(join(projectFolder, 'docs/night.md'), 'utf8')
    const induced = readFileSync(join(projectFolder, 'test/fixtures/alerts/induced.yaml'), 'utf8')
    expect(alerts.length).toBeGreaterThan(10)
    for (const { alert, expr } of alerts) {
      expect(runbook).toMatch(new RegExp(`^## [A-Z].+\\n\\n.*\`${alert}\``, 'm'))
      expect(induced).toMatch(new RegExp(`- alertname: ${alert}\\n.*\\n +exp_alerts:`))
      expect(expr).not.toContain('job=')
    }
    expect(readOps('prometheus.yaml').match(/job_name: (\S+)|replacement: (\S+)/g)).toContain('job_name: conservatory')
    expect(dashboard.templating.list).toContainEqual(expect.objectContaining({ name: 'job', query: 'conservatory' }))
  })

  it('name only metrics and labels that a running service has', () => {
    const names = new Set([scraped, ofPostgres].flatMap((text) => [...namesOf(parseMetrics(text))]))
    const labels = new Set([...(scraped + ofPostgres).matchAll(/[{,]([a-z_]+)="/g)].map(([, label]) => label))
    // Prometheus adds these two labels to every series.
    for (const label of ['job', 'instance']) labels.add(label)
    for (const { expr } of [...alerts, ...panels]) {
      const metrics = metricsOf(expr)
      expect(metrics, expr).not.toEqual([])
      expect(
        metrics.filter((metric) => !names.has(metric)),
        expr,
      ).toEqual([])
      expect(
        labelsOf(expr).filter((label) => !labels.has(label)),
        expr,
      ).toEqual([])
    }
  })

  it('use every existing metric except process_start_time_seconds', () => {
    const named = new Set([...alerts, ...panels].flatMap(({ expr }) => metricsOf(expr)))
    const all = [...(scraped + ofPostgres).matchAll(/^# TYPE (\S+)/gm)].map(([, name = '']) => name)
    const left = all.filter((name) => !['', '_bucket', '_sum', '_count'].some((suffix) => named.has(name + suffix)))
    expect(left).toEqual(['process_start_time_seconds'])
  })

  it('have an alert for each urgent fault, and expressions with paired brackets', () => {
    expect(alerts.map(({ alert }) => alert)).toEqual([
      'ConservatoryDown',
      'ConservatoryInstanceDown',
      'ConservatoryInstanceMissing',
      'ConservatoryErrorRateHigh',
      'ConservatoryDatabaseUnavailable',
      'ConservatoryWriteUnconfirmed',
      'ConservatoryPoolExhausted',
      'ConservatoryDatabaseSlow',
      'ConservatoryDiskFull',
      'ConservatoryLogGrowing',
      'ConservatoryOverloaded',
      'ConservatoryEventLoopLate',
      'ConservatoryFirstTokenSlow',
      'ConservatoryModelFailing',
      'ConservatoryBreakerOpen',
      'ConservatoryLedgerQueueGrowing',
    ])
    for (const { expr } of [...alerts, ...panels]) {
      let bare = expr.replace(/"[^"]*"/g, '')
      for (let before = ''; before !== bare; ) {
        before = bare
        bare = bare.replace(/\([^()[\]{}]*\)|\[[^()[\]{}]*\]|\{[^()[\]{}]*\}/g, '')
      }
      expect(bare, expr).not.toMatch(/[()[\]{}]/)
    }
  })
})
