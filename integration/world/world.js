// A whole world on this machine: a provider that says what a test tells it to say, a tool server
// with a ledger, and the real program placet between them.
import { execFile, spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { promisify } from 'node:util';
import { Desk, Ledger } from './desk.js';
import { Provider } from './provider.js';

const run = promisify(execFile);
const placet = process.env.PLACET;

const settings = (provider) => `version: 1
environment: test
listen: 127.0.0.1:0
store: sqlite:state.db
registry: [tools.yaml]
permissions: {read: ["group:leads"]}
providers:
  openai: {api: openai, url: "PROVIDER/v1"}
  anthropic: {api: anthropic, url: "PROVIDER", prefix: ["mcp__placet__"]}
approvals: {wait: 50s, default: {approvers: ["group:leads"]}}
`.replaceAll('PROVIDER', provider);

// delete_order is what a stale call would do harm with. It has the default of tools that are not
// read: what no model was seen to emit waits for a person.
const registry = (desk) => `version: 1
servers: {desk: {url: "${desk}"}}
defaults: {per_minute: 0, concurrent: 0}
tools:
  look_up: {server: desk, scope: desk, read: true}
  add_note: {server: desk, scope: desk, write: true, sources: [witnessed, vouched, direct], approval: {when: asked}}
  close_order: {server: desk, scope: desk, destructive: true, targets: [order], approval: {when: always}}
  delete_order: {server: desk, scope: desk, destructive: true, targets: [order], approval: {when: asked}}
`;

export class World {
	#process;
	#people = 0;
	#lead;

	static async open() {
		const world = new World();
		world.folder = mkdtempSync(join(tmpdir(), 'placet-integration-'));
		world.ledger = new Ledger(join(world.folder, 'ledger'));
		world.desk = new Desk(world.ledger);
		world.provider = new Provider();
		const provider = await world.provider.open();
		writeFileSync(join(world.folder, 'placet.yaml'), settings(provider));
		writeFileSync(join(world.folder, 'tools.yaml'), registry(await world.desk.open()));
		await world.#placet('tools', 'lock', 'desk');
		world.#process = spawn(placet, ['dev', '--json', '--tenants', 'acme'], { cwd: world.folder, stdio: ['ignore', 'pipe', 'pipe'] });
		process.once('exit', () => world.#process.kill()); // also when a test never ends
		world.said = '';
		world.#process.stderr.on('data', (text) => (world.said += text));
		const [line] = await Promise.race([
			new Promise((done) => createInterface(world.#process.stdout).on('line', (line) => done([line]))),
			new Promise((_, fail) => world.#process.on('exit', (code) => fail(new Error(`placet ended with ${code}: ${world.said}`)))),
		]);
		world.url = JSON.parse(line).url;
		world.mcp = `${world.url}/mcp`;
		world.llm = `${world.url}/llm`;
		world.models = provider; // past Placet
		world.#lead = await world.#token('--user', 'lena', '--groups', 'leads', '--approver');
		return world;
	}

	async close() {
		const ended = new Promise((done) => this.#process.on('exit', done));
		this.#process.kill();
		await ended;
		this.desk.close();
		this.provider.close();
		rmSync(this.folder, { recursive: true, force: true });
	}

	async #placet(...args) {
		return (await run(placet, args, { cwd: this.folder })).stdout;
	}

	async #token(...args) {
		return (await this.#placet('dev', 'token', '--server', this.url, '--tenant', 'acme', ...args)).trim();
	}

	// person is somebody whom no test has met yet, with the token that an agent has for them.
	async person() {
		const name = `anna${++this.#people}`;
		return { name, token: await this.#token('--user', name, '--agent', 'bot', '--scopes', 'desk') };
	}

	async #api(path, body) {
		const response = await fetch(`${this.url}/v1/${path}`, {
			method: body ? 'POST' : 'GET',
			headers: { authorization: `Bearer ${this.#lead}`, ...(body && { 'content-type': 'application/json' }) },
			body: body && JSON.stringify(body),
		});
		const answer = await response.json();
		if (!response.ok) throw new Error(`${path}: ${JSON.stringify(answer)}`);
		return answer;
	}

	// question waits until a person is asked about somebody's call, whose client waits for said.
	async question(person, said) {
		let ended = false;
		const unasked = said.then(() => {
			ended = true;
			throw new Error('it came to its end, and nobody was asked');
		});
		const asked = async () => {
			for (let version = ''; !ended; ) {
				const list = await this.#api(`approvals?state=pending&wait=30&version=${version}`);
				const mine = list.approvals.find((question) => question.call.principal.subject === person.name);
				if (mine) return mine;
				version = list.version;
			}
		};
		return Promise.race([asked(), unasked]);
	}

	approve(question) {
		return this.#api(`approvals/${question.id}/approve`, { binding: question.binding });
	}

	reject(question) {
		return this.#api(`approvals/${question.id}/reject`, { binding: question.binding });
	}

	// calls are the records of what was proposed for somebody.
	async calls(person) {
		const { calls } = await this.#api('calls');
		return calls.filter((call) => call.principal.subject === person.name);
	}
}
