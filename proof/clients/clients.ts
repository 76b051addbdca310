/** A client with the code that sends a request to `url` and retries it, otherwise with its defaults. */
export interface Client {
  readonly name: string;
  readonly language: 'node' | 'python' | 'go';
  /** What is installed, with exact versions; the first is the one that the table names. */
  readonly packages: readonly string[];
  readonly code: string;
}

const OCTOKIT = '@octokit/core@7.0.8';
const REQUEST_CHAT = `model: 'm', max_tokens: 1, messages: [{ role: 'user', content: 'x' }]`;
const REQUEST_CHAT_PYTHON = `model='m', max_tokens=1, messages=[{'role': 'user', 'content': 'x'}]`;

export const clients: readonly Client[] = [
  {
    name: '`weir-client/fetch`',
    language: 'node',
    packages: [],
    code: `const { weirFetch } = await import(process.env.WEIR_FETCH);
      await weirFetch()(url);`,
  },
  {
    name: 'got',
    language: 'node',
    packages: ['got@14.6.6'],
    code: `const { got } = await import('got');
      await got(url);`,
  },
  {
    name: 'ky',
    language: 'node',
    packages: ['ky@1.14.3'],
    code: `const { default: ky } = await import('ky');
      await ky(url, { timeout: false });`,
  },
  {
    name: 'axios-retry',
    language: 'node',
    packages: ['axios-retry@4.5.0', 'axios@1.21.1'],
    code: `const { default: axios } = await import('axios');
      const { default: axiosRetry } = await import('axios-retry');
      const client = axios.create();
      axiosRetry(client);
      await client.get(url);`,
  },
  {
    name: 'retry-axios',
    language: 'node',
    packages: ['retry-axios@4.0.3', 'axios@1.21.1'],
    code: `const { default: axios } = await import('axios');
      const rax = await import('retry-axios');
      const client = axios.create();
      rax.attach(client);
      await client.get(url, { raxConfig: { retry: 3 } });`,
  },
  {
    name: 'undici `RetryAgent`',
    language: 'node',
    packages: ['undici@7.30.2'],
    code: `const { Agent, RetryAgent, request } = await import('undici');
      await request(url, { dispatcher: new RetryAgent(new Agent()) });`,
  },
  {
    name: 'gaxios',
    language: 'node',
    packages: ['gaxios@7.3.1'],
    code: `const { Gaxios } = await import('gaxios');
      await new Gaxios().request({ url, retry: true });`,
  },
  {
    name: 'ofetch',
    language: 'node',
    packages: ['ofetch@1.5.1'],
    code: `const { ofetch } = await import('ofetch');
      await ofetch(url);`,
  },
  {
    name: 'fetch-retry',
    language: 'node',
    packages: ['fetch-retry@6.0.0'],
    code: `const { default: fetchRetry } = await import('fetch-retry');
      await fetchRetry(fetch)(url, { retryOn: [429] });`,
  },
  {
    name: 'superagent',
    language: 'node',
    packages: ['superagent@10.4.2'],
    code: `const { default: superagent } = await import('superagent');
      await superagent.get(url).retry(3);`,
  },
  {
    name: 'make-fetch-happen',
    language: 'node',
    packages: ['make-fetch-happen@15.0.6'],
    code: `const { default: fetchHappen } = await import('make-fetch-happen');
      await fetchHappen(url, { retry: 3 });`,
  },
  {
    name: 'wretch `retry`',
    language: 'node',
    packages: ['wretch@2.11.1'],
    code: `const { default: wretch } = await import('wretch');
      const { retry } = await import('wretch/middlewares');
      await wretch(url).middlewares([retry()]).get().res();`,
  },
  {
    name: 'octokit `plugin-retry`',
    language: 'node',
    packages: ['@octokit/plugin-retry@8.1.1', OCTOKIT],
    code: `const { Octokit } = await import('@octokit/core');
      const { retry } = await import('@octokit/plugin-retry');
      await new (Octokit.plugin(retry))({ baseUrl: url }).request('GET /');`,
  },
  {
    name: 'octokit `plugin-throttling`',
    language: 'node',
    packages: ['@octokit/plugin-throttling@11.0.5', OCTOKIT],
    code: `const { Octokit } = await import('@octokit/core');
      const { throttling } = await import('@octokit/plugin-throttling');
      const again = (seconds, options, octokit, count) => count < 3;
      const throttle = { onRateLimit: again, onSecondaryRateLimit: again };
      await new (Octokit.plugin(throttling))({ baseUrl: url, throttle }).request('GET /');`,
  },
  {
    name: 'openai',
    language: 'node',
    packages: ['openai@6.49.0'],
    code: `const { default: OpenAI } = await import('openai');
      await new OpenAI({ apiKey: 'k', baseURL: url }).chat.completions.create({ ${REQUEST_CHAT} });`,
  },
  {
    name: '@anthropic-ai/sdk',
    language: 'node',
    packages: ['@anthropic-ai/sdk@1.14.0'],
    code: `const { default: Anthropic } = await import('@anthropic-ai/sdk');
      await new Anthropic({ apiKey: 'k', baseURL: url }).messages.create({ ${REQUEST_CHAT} });`,
  },
  {
    name: '@slack/web-api',
    language: 'node',
    packages: ['@slack/web-api@8.2.0'],
    code: `const { WebClient } = await import('@slack/web-api');
      await new WebClient('t', { slackApiUrl: url }).auth.test();`,
  },
  {
    name: 'stripe',
    language: 'node',
    packages: ['stripe@23.1.0'],
    code: `const { default: Stripe } = await import('stripe');
      const { hostname: host, port } = new URL(url);
      await new Stripe('k', { host, port, protocol: 'http', maxNetworkRetries: 3 }).balance.retrieve();`,
  },
  {
    name: '@azure/core-rest-pipeline',
    language: 'node',
    packages: ['@azure/core-rest-pipeline@1.24.0'],
    code: `const { createPipelineFromOptions, createDefaultHttpClient, createPipelineRequest } =
        await import('@azure/core-rest-pipeline');
      const request = createPipelineRequest({ url, allowInsecureConnection: true });
      await createPipelineFromOptions({}).sendRequest(createDefaultHttpClient(), request);`,
  },
  {
    name: '@aws-sdk/client-sqs',
    language: 'node',
    packages: ['@aws-sdk/client-sqs@3.1175.0'],
    code: `const { ListQueuesCommand, SQSClient } = await import('@aws-sdk/client-sqs');
      const credentials = { accessKeyId: 'k', secretAccessKey: 'k' };
      await new SQSClient({ endpoint: url, region: 'x', credentials }).send(new ListQueuesCommand({}));`,
  },
  {
    name: '@discordjs/rest',
    language: 'node',
    packages: ['@discordjs/rest@2.6.3'],
    code: `const { REST } = await import('@discordjs/rest');
      await new REST({ api: url, makeRequest: fetch }).setToken('t').get('/x');`,
  },
  {
    name: 'requests with urllib3 `Retry`',
    language: 'python',
    packages: ['urllib3==2.8.0', 'requests==2.34.2'],
    code: `import requests
from requests.adapters import HTTPAdapter
from urllib3 import Retry
session = requests.Session()
session.mount('http://', HTTPAdapter(max_retries=Retry(3, status_forcelist=[429])))
session.get(url)`,
  },
  {
    name: 'httpx-retries',
    language: 'python',
    packages: ['httpx-retries==0.6.0', 'httpx==0.28.1'],
    code: `import httpx
from httpx_retries import RetryTransport
httpx.Client(transport=RetryTransport()).get(url)`,
  },
  {
    name: 'aiohttp-retry',
    language: 'python',
    packages: ['aiohttp-retry==2.9.1', 'aiohttp==3.14.5'],
    code: `import asyncio
from aiohttp_retry import ExponentialRetry, RetryClient
async def send():
    async with RetryClient(retry_options=ExponentialRetry(statuses={429})) as client:
        await client.get(url)
asyncio.run(send())`,
  },
  {
    name: 'openai',
    language: 'python',
    packages: ['openai==3.57.0'],
    code: `import openai
openai.OpenAI(api_key='k', base_url=url).chat.completions.create(${REQUEST_CHAT_PYTHON})`,
  },
  {
    name: 'anthropic',
    language: 'python',
    packages: ['anthropic==2.14.0'],
    code: `import anthropic
anthropic.Anthropic(api_key='k', base_url=url).messages.create(${REQUEST_CHAT_PYTHON})`,
  },
  {
    name: 'slack_sdk',
    language: 'python',
    packages: ['slack_sdk==3.48.0'],
    code: `from slack_sdk import WebClient
from slack_sdk.http_retry.builtin_handlers import RateLimitErrorRetryHandler
WebClient('t', base_url=url, retry_handlers=[RateLimitErrorRetryHandler(3)]).auth_test()`,
  },
  {
    name: 'azure-core',
    language: 'python',
    packages: ['azure-core==1.41.0', 'requests==2.34.2'],
    code: `from azure.core import PipelineClient
from azure.core.pipeline.policies import RetryPolicy
from azure.core.rest import HttpRequest
PipelineClient(url, policies=[RetryPolicy()]).send_request(HttpRequest('GET', url))`,
  },
  {
    name: 'go-retryablehttp',
    language: 'go',
    packages: ['github.com/hashicorp/go-retryablehttp@v0.7.8'],
    code: `retryablehttp.NewClient().Get(url)`,
  },
  {
    name: 'resty',
    language: 'go',
    packages: ['github.com/go-resty/resty/v2@v2.17.2'],
    code: `is429 := func(r *resty.Response, _ error) bool { return r.StatusCode() == 429 }
	resty.New().SetRetryCount(3).AddRetryCondition(is429).R().Get(url)`,
  },
];
