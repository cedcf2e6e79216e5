import type { Allowance, Headers } from '../access/guard.ts'

/** The headers in which OpenAI's clients read how many requests are left. */
export function openAiRequestHeaders(allowance: Allowance): Headers {
  return openAiHeaders('requests', allowance)
}

/** The headers in which OpenAI's clients read how many tokens are left. */
export function openAiTokenHeaders(allowance: Allowance): Headers {
  return openAiHeaders('tokens', allowance)
}

function openAiHeaders(what: 'requests' | 'tokens', { limit, remaining, resetMs }: Allowance): Headers {
  return {
    [`x-ratelimit-limit-${what}`]: String(limit),
    [`x-ratelimit-remaining-${what}`]: String(remaining),
    [`x-ratelimit-reset-${what}`]: duration(resetMs),
  }
}

/** The headers of draft-ietf-httpapi-ratelimit-headers-10 for the requests that are left. */
export function standardHeaders({ limit, remaining, resetMs }: Allowance): Headers {
  return {
    'ratelimit-policy': `"requests_per_minute";q=${limit};w=60`,
    ratelimit: `"requests_per_minute";r=${remaining};t=${Math.ceil(resetMs / 1000)}`,
  }
}

/** A time as OpenAI writes it: `120ms`, `1s`, `6m0s`. */
export function duration(milliseconds: number): string {
  if (milliseconds < 1000) return `${Math.ceil(milliseconds)}ms`
  const seconds = Math.ceil(milliseconds / 1000)
  return seconds < 60 ? `${seconds}s` : `${Math.floor(seconds / 60)}m${seconds % 60}s`
}
