import { describe, expect, it } from 'vitest'
import { ConfigError, readConfig } from '../src/config.ts'
import { noProxies } from '../src/proxies.ts'

function read(settings: Readonly<Record<string, string>>) {
  try {
    return { proxies: readConfig(settings).proxies, faults: [] }
  } catch (error) {
    if (error instanceof ConfigError) return { proxies: noProxies, faults: error.message.split('\n') }
    throw error
  }
}

const both = { HTTP_PROXY: 'http://one.example:3128', HTTPS_PROXY: 'http://two.example:3128' }
const of = (url: string, settings: Readonly<Record<string, string>> = both) =>
  read(settings).proxies.of(new URL(url)) ?? 'none'

describe('the settings of proxies', () => {
  it('mean no proxy by default', () => {
    expect(read({}).proxies).toBe(noProxies)
    expect(read({ NO_PROXY: '*' }).proxies).toBe(noProxies)
  })

  it.each([
    ['http://models.example/v1', 'http://one.example:3128/'],
    ['https://models.example/v1', 'http://two.example:3128/'],
    ['http://192.0.2.7:8080/v1', 'http://one.example:3128/'],
    ['https://[2001:db8::7]/v1', 'http://two.example:3128/'],
    ['ftp://models.example', 'none'],
  ])('depend on the scheme of the requested URL: %s', (url, proxy) => {
    expect(of(url)).toBe(proxy)
  })

  it('apply only to their scheme', () => {
    expect(of('https://models.example', { HTTP_PROXY: 'http://one.example' })).toBe('none')
    expect(of('http://models.example', { HTTPS_PROXY: 'http://two.example' })).toBe('none')
  })

  it('may have a name in lower case, which wins over upper case, and a value without a scheme', () => {
    const settings = { http_proxy: 'small.example:8080', HTTP_PROXY: 'http://large.example' }
    expect(of('http://models.example', settings)).toBe('http://small.example:8080/')
  })

  it.each([
    'http://localhost:11434',
    'http://api.localhost',
    'http://127.0.0.1:8080',
    'http://127.9.9.9',
    'http://[::1]:8080',
    'http://[::ffff:127.0.0.1]',
    'https://ollama:11434',
    'http://ollama.:11434',
  ])('never apply to this machine, or to a name without a dot: %s', (url) => {
    expect(of(url)).toBe('none')
  })

  const exempt =
    'a.example, .b.example *.c.example,d.example:8443,192.0.2.7,10.0.0.0/8, fd00::/8,[2001:db8::7]:443,E.Example.'
  it.each([
    ['https://a.example', true],
    ['https://x.a.example', true],
    ['https://A.Example', true],
    ['https://a.example.', true],
    ['https://xa.example', false],
    ['https://a.example.org', false],
    ['https://b.example', true],
    ['https://x.b.example', true],
    ['https://c.example', false],
    ['https://x.c.example', true],
    ['https://d.example:8443', true],
    ['https://d.example', false],
    ['http://192.0.2.7:99', true],
    ['http://192.0.2.8', false],
    ['http://10.1.2.3', true],
    ['http://11.1.2.3', false],
    ['http://[fd12::1]', true],
    ['https://[2001:db8::7]', true],
    ['https://[2001:db8::7]:444', false],
    ['https://x.e.example', true],
  ])('do not apply to a host that NO_PROXY exempts: %s %s', (url, isExempt) => {
    expect(of(url, { ...both, NO_PROXY: exempt }) === 'none').toBe(isExempt)
  })

  it('apply to no host if NO_PROXY has a star', () => {
    expect(of('https://a.example', { ...both, NO_PROXY: 'b.example,*' })).toBe('none')
  })

  it.each([
    [
      'HTTP_PROXY',
      'socks5://one:canary@proxy.example',
      'HTTP_PROXY is not an address such as http://proxy.example:3128.',
    ],
    ['HTTPS_PROXY', 'http://', 'HTTPS_PROXY is not an address such as http://proxy.example:3128.'],
    ['HTTP_PROXY', 'http://one:%zz@proxy.example', 'HTTP_PROXY is not an address such as http://proxy.example:3128.'],
    ['http_proxy', 'http://proxy.example/path', 'HTTP_PROXY is not an address such as http://proxy.example:3128.'],
    ['NO_PROXY', '10.0.0.0/99', /^NO_PROXY has "10\.0\.0\.0\/99"; give addresses or networks/],
  ])('that are malformed are reported without a password: %s=%s', (name, value, fault) => {
    const { faults } = read({ ...(name === 'NO_PROXY' ? both : {}), [name]: value })
    expect(faults).toEqual([typeof fault === 'string' ? fault : expect.stringMatching(fault)])
  })
})
