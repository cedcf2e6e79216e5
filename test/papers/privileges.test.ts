import { describe, expect, it } from 'vitest'
import { composeFile, deployment, kubernetesObject } from '../support/operations.ts'

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

  it('lets no container gain a privilege, and lets the proxy write only temporary files', () => {
    for (const [name, { security_opt }] of entries) {
      expect([name, security_opt]).toEqual([name, ['no-new-privileges:true']])
    }
    const proxy = composeFile().services['proxy']
    expect([proxy?.read_only, proxy?.tmpfs, proxy?.cap_drop]).toEqual([true, ['/config', '/data'], ['ALL']])
  })
})

describe('ops/kubernetes.yaml', () => {
  it('admits all clients to the port `http`, whose requests need a key, and one namespace to the port `metrics`', () => {
    const { spec } = deployment()
    expect(kubernetesObject('NetworkPolicy', 'conservatory')).toEqual({
      apiVersion: 'networking.k8s.io/v1',
      kind: 'NetworkPolicy',
      metadata: { name: 'conservatory' },
      spec: {
        podSelector: { matchLabels: spec.selector.matchLabels },
        policyTypes: ['Ingress'],
        ingress: [
          { ports: [{ port: 'http' }] },
          {
            from: [{ namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': 'monitoring' } } }],
            ports: [{ port: 'metrics' }],
          },
        ],
      },
    })
    const [container] = spec.template.spec.containers
    expect(container.ports.map(({ name }) => name)).toEqual(['http', 'metrics'])
  })
})
