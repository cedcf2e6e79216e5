import { execFileSync } from 'node:child_process'
import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Type } from '@sinclair/typebox'
import { describe, expect, it, onTestFinished } from 'vitest'
import { readModels } from '../../src/models/configuration/models-file.ts'
import { conservatory } from '../support/command.ts'
import { checked, composeFile, deployment, knownSettings, kubernetesObject, textOf } from '../support/operations.ts'
import { projectFolder } from '../support/process.ts'
import { temporaryFolder } from '../support/service.ts'

/** Variables of glibc, which the files for operation set beside the settings of the service. */
const allocator = ['MALLOC_MMAP_THRESHOLD_', 'MALLOC_TRIM_THRESHOLD_']
const settings = new Set([...knownSettings(), ...allocator])
const handbook = textOf('docs/operations.md')
/** The default of SHUTDOWN_GRACE in seconds. */
const shutdownGrace = Number(/^\| `SHUTDOWN_GRACE`\s+\| `(\d+)`/m.exec(textOf('docs/settings.md'))?.[1])

function isThere(path: string): boolean {
  return existsSync(join(projectFolder, path))
}

/** The number in `${NAME:-NUMBER}`, which applies if NAME is not set. */
function defaultOf(value: string | null | undefined): number {
  return Number(/:-(\d+)\}$/.exec(value ?? '')?.[1])
}

describe('compose.yaml', () => {
  const { services, volumes } = composeFile()
  const entries = Object.entries(services)

  it('starts one service over SQLite without a profile; the profile "scale" has three replicas, a proxy and a database', () => {
    expect(entries.filter(([, { profiles }]) => profiles === undefined).map(([name]) => name)).toEqual(['conservatory'])
    const inScale = entries.filter(([, { profiles }]) => profiles?.includes('scale')).map(([name]) => name)
    expect(inScale).toEqual(['replica', 'proxy', 'database'])
    expect(services['replica']?.deploy?.replicas).toBe(3)
    expect(services['conservatory']?.environment).not.toHaveProperty('DATABASE_URL')
  })

  it('passes all settings to the service except DATABASE_URL and those that the image sets, and no unknown settings', () => {
    // The image sets these settings itself, and only the replicas have a DATABASE_URL.
    const given = new Set(['HOST', 'PORT', 'DATA_DIR', 'CONFIG_DIR', 'DATABASE_URL'])
    const passed = [...settings].filter((name) => !given.has(name))
    expect(passed.length).toBeGreaterThan(20)
    const own = entries.filter(([name, { image }]) => image === 'conservatory' && name !== 'backup')
    expect(own.map(([name]) => name)).toEqual(['conservatory', 'replica', 'ollama-conservatory'])
    for (const [, { environment = {} }] of own) {
      expect(Object.keys(environment).filter((name) => !settings.has(name))).toEqual(['POSTGRES_PASSWORD'])
      expect(passed.filter((name) => !(name in environment))).toEqual([])
    }
  })

  it('keeps at most 50 MB of each container’s log, as docs/operations.md says', () => {
    expect(entries.length).toBeGreaterThan(6)
    for (const [name, { logging }] of entries) {
      const { 'max-size': size, 'max-file': files } = logging?.options ?? {}
      expect([name, Number.parseInt(size ?? '', 10) * Number(files)]).toEqual([name, 50])
    }
    expect(handbook).toContain('keeps the newest 50 MB')
  })

  it('names only existing services, volumes and files', () => {
    const mounts = entries.flatMap(([, service]) => service.volumes ?? []).map((mount) => mount.split(':')[0] ?? '')
    const files = mounts.filter((source) => source.startsWith('./') && !['./config', './backups'].includes(source))
    expect(files.toSorted()).toEqual(['./ops/Caddyfile', './ops/ollama'])
    expect(files.filter((file) => !isThere(file))).toEqual([])
    const named = mounts.filter((source) => !source.startsWith('./'))
    expect([...new Set(named)].toSorted()).toEqual(Object.keys(volumes).toSorted())
    for (const [, { profiles, depends_on = {} }] of entries) {
      for (const [name, { condition }] of Object.entries(depends_on)) {
        const needed = services[name]
        expect(needed?.profiles).toEqual(profiles)
        const isAsked = needed?.healthcheck?.test !== undefined || needed?.image === 'conservatory'
        expect(isAsked || condition === 'service_completed_successfully').toBe(true)
      }
    }
  })

  it('(s) gives the service time to drain and to stop, and writes only where it may', () => {
    const own = entries.filter(([, { image }]) => image === 'conservatory')
    for (const [name, { stop_grace_period = '', environment, command, read_only, tmpfs = [], volumes = [] }] of own) {
      const isService = name !== 'backup'
      const { DRAIN_SECONDS: drain, START_TIMEOUT: wait } = environment ?? {}
      if (isService) {
        expect([defaultOf(drain), defaultOf(wait), stop_grace_period]).toEqual([5, 60, '25s'])
        expect(Number.parseInt(stop_grace_period, 10)).toBeGreaterThan(defaultOf(drain) + shutdownGrace + 1)
      }
      expect([command === undefined, read_only]).toEqual([isService, true])
      const places = [...tmpfs, ...volumes].map((mount) => (mount.startsWith('/') ? mount : mount.replace(/^.*?:/, '')))
      const mounted = isService ? '/config:ro' : '/backups'
      expect(places.map((place) => place.replace(/:(?:uid|size).*/, '')).toSorted()).toEqual([mounted, '/data', '/tmp'])
    }
    const configured = entries.filter(([, { volumes = [] }]) => volumes.includes('./config:/config:ro'))
    expect(configured.map(([name]) => name)).toEqual(['conservatory', 'replica'])
  })

  it('publishes each service only to this machine, unless BIND is set', () => {
    const published = entries.filter(([, { ports }]) => ports !== undefined)
    expect(published.map(([name]) => name)).toEqual(['conservatory', 'proxy', 'ollama-conservatory'])
    for (const [, { ports }] of published) expect(ports).toEqual(['$' + '{BIND:-127.0.0.1}:3000:3000'])
  })

  it('takes keys from an optional .env, which is not committed, and whose example runs unchanged', () => {
    for (const [name, { image, env_file }] of entries) {
      const needsKeys = image === 'conservatory' && name !== 'backup'
      expect([name, env_file]).toEqual([name, needsKeys ? [{ path: '.env', required: false }] : undefined])
    }
    expect(textOf('.gitignore').split('\n')).toEqual(expect.arrayContaining(['.env', '/config/']))
    const example = textOf('.env.example').split('\n')
    expect(example.filter((line) => line !== '' && !line.startsWith('#'))).toEqual([])
    const names = example.flatMap((line) => /^#([A-Z_]+)=/.exec(line)?.[1] ?? [])
    // These variables are not settings of the service: they are keys for models.json, and variables of compose.yaml.
    const others = ['ANTHROPIC_API_KEY', 'GOOGLE_API_KEY', 'BIND', 'POSTGRES_PASSWORD']
    expect(names.filter((name) => !settings.has(name))).toEqual(others)
  })

  it('checks the database for readiness, and gives it the name and user of the URL', () => {
    const database = services['database']
    const { POSTGRES_USER: user, POSTGRES_DB: name } = database?.environment ?? {}
    expect(services['replica']?.environment?.['DATABASE_URL']).toBe(
      `postgres://${user}:${'$'}{POSTGRES_PASSWORD:-}@database:5432/${name}`,
    )
    expect(database?.healthcheck?.test).toContain(`--dbname=${name}`)
    expect(database?.ports).toBeUndefined()
  })

  it('pulls the model that ops/ollama/models.json names, and starts the server that the file names', () => {
    const models = readModels(textOf('ops/ollama/models.json'), {})
    const llama = models.models.get('llama')
    expect(services['ollama-model']?.entrypoint).toEqual(['ollama', 'pull', 'llama3.2'])
    expect(llama).toMatchObject({ adapter: 'openai', baseUrl: 'http://ollama:11434/v1', model: 'llama3.2' })
    expect(services['ollama-conservatory']?.volumes).toContain('./ops/ollama:/config:ro')
  })
})

describe('ops/conservatory', () => {
  const script = textOf('ops/conservatory')

  it('runs commands with the user, the program, the data folder and the environment file of the units', () => {
    for (const unit of ['ops/conservatory.service', 'ops/conservatory-backup.service']) {
      const text = textOf(unit)
      const entry = (name: string) => new RegExp(`^${name}=(.+)$`, 'm').exec(text)?.[1] ?? ''
      const [node = '', launcher = ''] = entry('ExecStart').split(' ')
      const program = `${node} ${join(entry('WorkingDirectory'), launcher)}`
      expect(script).toContain(`\nexec runuser -u ${entry('User')} -- ${program} "$@"\n`)
      expect(script).toContain(`\nexport ${entry('Environment')}\n`)
    }
    const [, file] = /^EnvironmentFile=-(.+)$/m.exec(textOf('ops/conservatory.service')) ?? []
    expect(script).toContain(`done <${file}\n`)
  })

  it('reads the environment file as systemd does: nothing is expanded, and quotes around a value are removed', () => {
    const { path: folder, remove } = temporaryFolder()
    onTestFinished(remove)
    const lines = [
      '# A comment',
      '',
      'ONE=a $HOME `id` b',
      'TWO="quoted # not"',
      "THREE='it''s'",
      'FOUR=a=b"',
      '; FIVE=5',
      'SIX=',
    ]
    writeFileSync(join(folder, 'environment'), lines.join('\n'))
    const printing = script
      .replaceAll('/etc/conservatory/environment', join(folder, 'environment'))
      .replace(/^exec .+$/m, 'exec env')
    const printed = execFileSync('sh', ['-c', printing], { env: { PATH: process.env['PATH'] }, encoding: 'utf8' })
    const values = Object.fromEntries(printed.split('\n').map((line) => line.split(/=(.*)/)))
    expect(values).toMatchObject({ ONE: 'a $HOME `id` b', TWO: 'quoted # not', THREE: "it''s", FOUR: 'a=b"', SIX: '' })
    expect(values).not.toHaveProperty('FIVE')
  })
})

describe('ops/Caddyfile', () => {
  const caddyfile = textOf('ops/Caddyfile')

  it('connects the published port with the replicas, and does not buffer or compress streams', () => {
    const { services } = composeFile()
    expect(caddyfile).toMatch(/^:3000 \{$/m)
    expect(services['proxy']?.ports?.[0]).toMatch(/:3000:3000$/)
    expect(Object.keys(services)).toContain(/^\s+name (\S+)$/m.exec(caddyfile)?.[1])
    expect(caddyfile).toMatch(/^\s+port 3000$/m)
    expect(caddyfile).toMatch(/^\s+flush_interval -1$/m)
    expect(caddyfile).not.toMatch(/^\s+encode\b/m)
    expect(caddyfile.match(/\{$/gm)?.length).toBe(caddyfile.match(/^\s*\}$/gm)?.length)
  })
})

describe('ops/kubernetes.yaml', () => {
  const { spec } = deployment()
  const pod = spec.template.spec
  const [container] = pod.containers
  const values = (kind: string, field: string) => {
    const contents = Type.Record(Type.String(), Type.String())
    return checked(Type.Object({ [field]: contents }), kubernetesObject(kind, 'conservatory'))[field] ?? {}
  }
  const configured = values('ConfigMap', 'data')

  it('gives the service only existing settings, from existing objects', () => {
    expect(container.envFrom).toEqual([
      { secretRef: { name: 'conservatory' } },
      { configMapRef: { name: 'conservatory' } },
    ])
    const names = [configured, values('Secret', 'stringData')].flatMap((data) => Object.keys(data))
    const all = [...names, ...container.env.map(({ name }) => name)]
    expect(all).toContain('DATABASE_URL')
    expect(all.filter((name) => !settings.has(name))).toEqual([])
  })

  it('probes the right paths on a port that the service has', () => {
    expect(container.startupProbe.httpGet).toEqual({ path: '/livez', port: 'http' })
    expect(container.livenessProbe.httpGet).toEqual({ path: '/livez', port: 'http' })
    expect(container.readinessProbe.httpGet).toEqual({ path: '/readyz', port: 'http' })
    const metrics = container.env.find(({ name }) => name === 'METRICS_PORT')?.value
    expect(container.ports).toEqual([
      { name: 'http', containerPort: 3000 },
      { name: 'metrics', containerPort: Number(metrics) },
    ])
    expect(spec.template.metadata.annotations['prometheus.io/port']).toBe(metrics)
  })

  it('(s) drains, and waits for open replies before it kills', () => {
    const { DRAIN_SECONDS: drain, SHUTDOWN_GRACE: grace } = configured
    expect(pod.terminationGracePeriodSeconds).toBeGreaterThan(Number(drain) + Number(grace) + 1)
    // During the drain the readiness probe fails, so balancers send no more requests when the listener closes.
    const { periodSeconds, failureThreshold } = container.readinessProbe
    expect(Number(drain)).toBeGreaterThan(periodSeconds * failureThreshold)
  })

  it('(s) lets a replica wait for its database before the replica counts as dead', () => {
    const { periodSeconds, failureThreshold } = container.startupProbe
    expect(Number(configured['START_TIMEOUT'])).toBe(60)
    expect(periodSeconds * failureThreshold).toBeGreaterThan(60)
  })

  it('selects its own pods, for the Service and the disruption budget too', () => {
    const labels = { app: 'conservatory' }
    expect(spec.template.metadata.labels).toEqual(labels)
    expect(spec.selector.matchLabels).toEqual(labels)
    expect(kubernetesObject('Service', 'conservatory')).toMatchObject({
      spec: { selector: labels, ports: [{ targetPort: 'http' }] },
    })
    expect(kubernetesObject('PodDisruptionBudget', 'conservatory')).toMatchObject({
      spec: { maxUnavailable: 1, selector: { matchLabels: labels } },
    })
  })

  it('mounts only existing volumes, and models that can be read', () => {
    const volumes = new Set(pod.volumes.map(({ name }) => name))
    expect(container.volumeMounts.filter(({ name }) => !volumes.has(name))).toEqual([])
    expect(container.volumeMounts.map(({ mountPath }) => mountPath)).toEqual(['/data', '/tmp', '/config'])
    const file = checked(
      Type.Object({ data: Type.Object({ 'models.json': Type.String() }) }),
      kubernetesObject('ConfigMap', 'conservatory-models'),
    )
    expect([...readModels(file.data['models.json'], {}).models.keys()]).toEqual(['understudy'])
  })
})

describe('ops/conservatory.service', () => {
  const lines = textOf('ops/conservatory.service')
    .split('\n')
    .filter((line) => line !== '' && !/^[#[]/.test(line))
  const values = new Map(lines.map((line) => [line.slice(0, line.indexOf('=')), line.slice(line.indexOf('=') + 1)]))

  it('starts existing files, stops the service in time and restarts it', () => {
    expect(lines.filter((line) => !/^[A-Z][A-Za-z]+=/.test(line))).toEqual([])
    const [node = '', ...words] = values.get('ExecStart')?.split(' ') ?? []
    expect(isThere(node.replace('/opt/conservatory/', ''))).toBe(true)
    expect(words).toEqual(['src/launcher.cjs'])
    expect(values.get('KillSignal')).toBe('SIGTERM')
    expect(Number(values.get('TimeoutStopSec'))).toBeGreaterThan(shutdownGrace + 1)
    expect(values.get('Restart')).toBe('always')
  })

  it('has only existing settings, and writes only to its data folder', () => {
    const given = new Map(
      values
        .get('Environment')
        ?.split(' ')
        .map((pair): [string, string] => [pair.split('=')[0] ?? '', pair.split('=')[1] ?? '']),
    )
    expect([...given.keys()].filter((name) => name !== 'NODE_ENV' && !settings.has(name))).toEqual([])
    expect(given.get('DATA_DIR')).toBe(`/var/lib/${values.get('StateDirectory')}`)
    expect(values.get('ProtectSystem')).toBe('strict')
    expect(values.get('User')).not.toBe('root')
  })
})

describe('docs/operations.md and docs/night.md', () => {
  it('show only existing commands and options', async () => {
    const shown = [
      ...`${handbook}${textOf('docs/night.md')}`.matchAll(/^conservatory (.+)$|`conservatory ([^`…]+)`/gm),
    ].map(([, line, word]) => line ?? word ?? '')
    const commands = new Map<string, Set<string>>()
    for (const text of shown) {
      const [first = '', second = ''] = text.split(' ')
      const hasOwn = ['accounts', 'keys', 'plants', 'characters', 'models'].includes(first)
      const name = hasOwn ? `${first} ${second}` : first
      const options = commands.get(name) ?? new Set()
      for (const [option] of text.matchAll(/--[a-z]+/g)) options.add(option)
      commands.set(name, options)
    }
    expect(commands.size).toBeGreaterThan(10)
    await Promise.all(
      [...commands].map(async ([name, options]) => {
        const { stdout } = await conservatory([...name.split(' '), '--help'], {})
        expect(stdout).toMatch(new RegExp(`^Usage: conservatory ${name}\\b`))
        for (const option of options) expect(stdout).toContain(option)
      }),
    )
  }, 30_000)

  it('names only existing settings and services', () => {
    const others = new Set(['POSTGRES_PASSWORD'])
    const named = [...handbook.matchAll(/`([A-Z]+_[A-Z_]+)(?:=[^`]*)?`/g)].map(([, name]) => name ?? '')
    expect(named).toContain('SHUTDOWN_GRACE')
    expect(named.filter((name) => !settings.has(name) && !others.has(name))).toEqual([])
    const { services } = composeFile()
    const targets = [...handbook.matchAll(/docker compose (?:exec|run --rm|--profile \w+ up(?: --build)?) ([\w-]+)/g)]
    expect(targets.length).toBeGreaterThan(3)
    expect(targets.map(([, name]) => name).filter((name) => name === undefined || !(name in services))).toEqual([])
  })

  it('names only error codes that the service sends', () => {
    const sources = ['storage/postgres/failures.ts', 'storage/write-error.ts', 'errors.ts', 'chat/open-replies.ts']
    const text = sources.map((file) => textOf(`src/${file}`)).join('')
    const codes = [...handbook.matchAll(/(?:50\d|error)\s`([a-z]+_?[a-z]+)`/g)].map(([, code]) => code)
    expect(codes.length).toBeGreaterThan(3)
    expect(codes.filter((code) => !text.includes(`'${code}'`))).toEqual([])
  })
})
