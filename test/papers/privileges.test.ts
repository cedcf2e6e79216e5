import { describe, expect, it } from 'vitest'
import { composeFile, deployment, kubernetesObject, textOf } from '../support/operations.ts'

describe('compose.yaml', () => {
  const entries = Object.entries(composeFile().services)

  it('gives the service no capability, and no way to gain one', () => {
    const own = entries.filter(([, { image }]) => image === 'conservatory')
    expect(own.length).toBe(4)
    for (const [, { cap_drop, cap_add, read_only, security_opt }] of own) {
      expect({ cap_drop, cap_add, read_only, security_opt }).toEqual({
        cap_drop: ['ALL'],
        cap_add: undefined,
        read_only: true,
        security_opt: ['no-new-privileges:true'],
      })
    }
  })

  it('bounds each temporary file system', () => {
    const places = entries.flatMap(([, { tmpfs = [] }]) => tmpfs)
    expect(places.length).toBeGreaterThan(4)
    expect(places.filter((place) => !/[:,]size=\d+m$/.test(place))).toEqual([])
  })

  it('gives each container only its own secrets: the password to the database and the replicas, keys to no backup', () => {
    const { services, secrets } = composeFile()
    expect(secrets).toEqual({ 'database-password': { environment: 'POSTGRES_PASSWORD' } })
    for (const [name, { environment = {}, env_file, secrets: own }] of entries) {
      expect([name, own]).toEqual([name, name === 'database' ? ['database-password'] : undefined])
      const expanded = Object.entries(environment).filter(([, value]) => value?.includes('{POSTGRES_PASSWORD'))
      expect([name, expanded.map(([key]) => key)]).toEqual([name, name === 'replica' ? ['DATABASE_URL'] : []])
      // The whole of .env is for a service, but not the password in it.
      if (env_file !== undefined) expect([name, environment['POSTGRES_PASSWORD']]).toEqual([name, ''])
    }
    expect(services['backup']?.environment).toBeUndefined()
    expect(services['database']?.environment).toHaveProperty('POSTGRES_PASSWORD_FILE', '/run/secrets/database-password')
  })

  it('has no default for a password, and requires none of those who do not use the database', () => {
    const text = textOf('compose.yaml').replaceAll(/^\s*#.*$/gm, '')
    expect([...text.matchAll(/\$\{POSTGRES_PASSWORD(.*?)\}/g)].map(([, rest]) => rest)).toEqual([':-'])
    expect(text).not.toMatch(/\$\{\w+:?\?/)
  })

  it('lets no container gain a privilege, and lets the proxy write only temporary files', () => {
    for (const [name, { security_opt }] of entries) {
      expect([name, security_opt]).toEqual([name, ['no-new-privileges:true']])
    }
    const proxy = composeFile().services['proxy']
    expect([proxy?.read_only, proxy?.tmpfs, proxy?.cap_drop]).toEqual([
      true,
      ['/config:size=16m', '/data:size=16m'],
      ['ALL'],
    ])
  })
})

/** The networks that are not the internet, with the metadata of clouds (169.254.169.254). */
const privateNetworks = [
  ...['10.0.0.0/8', '100.64.0.0/10', '127.0.0.0/8', '169.254.0.0/16', '172.16.0.0/12', '192.168.0.0/16'],
  ...['::1/128', 'fc00::/7', 'fe80::/10'],
]

describe('ops/kubernetes.yaml', () => {
  it('admits all clients to the port `http`, whose requests need a key, and one namespace to the port `metrics`; replicas reach DNS, PostgreSQL, and HTTPS outside of private networks', () => {
    const { spec } = deployment()
    expect(kubernetesObject('NetworkPolicy', 'conservatory')).toEqual({
      apiVersion: 'networking.k8s.io/v1',
      kind: 'NetworkPolicy',
      metadata: { name: 'conservatory' },
      spec: {
        podSelector: { matchLabels: spec.selector.matchLabels },
        policyTypes: ['Ingress', 'Egress'],
        ingress: [
          { ports: [{ port: 'http' }] },
          {
            from: [{ namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': 'monitoring' } } }],
            ports: [{ port: 'metrics' }],
          },
        ],
        egress: [
          {
            to: [{ namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': 'kube-system' } } }],
            ports: [
              { port: 53, protocol: 'UDP' },
              { port: 53, protocol: 'TCP' },
            ],
          },
          { ports: [{ port: 5432 }] },
          {
            to: [
              { ipBlock: { cidr: '0.0.0.0/0', except: privateNetworks.filter((network) => !network.includes(':')) } },
              { ipBlock: { cidr: '::/0', except: privateNetworks.filter((network) => network.includes(':')) } },
            ],
            ports: [{ port: 443 }],
          },
        ],
      },
    })
    const [container] = spec.template.spec.containers
    expect(container.ports.map(({ name }) => name)).toEqual(['http', 'metrics'])
  })
})
