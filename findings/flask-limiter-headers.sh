#!/usr/bin/env bash
# Flask-Limiter 4.1.1 with Flask 3.1.3, and slowapi 0.1.10 with Starlette, which is made after it (PyPI), 2026-11-30.
# Guess: with two limits the headers of a request that passed describe the one with fewest requests left, and both
# libraries send the same.
# So: they describe the limit with the shortest window: 2 are left, and the next request is refused for an hour. slowapi
# sends the reset with a fraction of a second.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m venv venv
venv/bin/pip install --quiet Flask-Limiter==4.1.1 Flask==3.1.3 slowapi==0.1.10 starlette==1.10.0 httpx==0.28.1 \
  limits==5.8.0 > install.log 2>&1
cat > probe.py <<'EOF'
import time
import warnings
warnings.simplefilter('ignore')
import flask
import flask_limiter
import slowapi
from slowapi.errors import RateLimitExceeded
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.testclient import TestClient

limits = '3 per 2 second; 4 per hour'

flask_app = flask.Flask('probe')
flask_limits = flask_limiter.Limiter(lambda: 'client', app=flask_app, headers_enabled=True)

@flask_app.route('/')
@flask_limits.limit(limits)
def answer():
    return 'ok'

starlette_limits = slowapi.Limiter(key_func=lambda request: 'client', headers_enabled=True)

@starlette_limits.limit(limits)
def answer_starlette(request):
    return PlainTextResponse('ok')

starlette_app = Starlette()
starlette_app.state.limiter = starlette_limits
starlette_app.add_exception_handler(RateLimitExceeded, slowapi._rate_limit_exceeded_handler)
starlette_app.add_route('/', answer_starlette)

for name, client in {'Flask-Limiter': flask_app.test_client(), 'slowapi': TestClient(starlette_app)}.items():
    for request in range(1, 6):
        if request == 4:
            time.sleep(2.5)
        response = client.get('/')
        headers = {key.lower(): value for key, value in response.headers.items()}
        reset = headers['x-ratelimit-reset']
        wait = 'wait of seconds' if float(reset) - time.time() < 60 else 'wait of an hour'
        print(name, request, response.status_code, 'limit', headers['x-ratelimit-limit'], 'remaining',
              headers['x-ratelimit-remaining'], wait, 'whole' if reset.isdigit() else 'with a fraction')
EOF
venv/bin/python probe.py > seen
diff - seen <<'EOF'
Flask-Limiter 1 200 limit 3 remaining 2 wait of seconds whole
Flask-Limiter 2 200 limit 3 remaining 1 wait of seconds whole
Flask-Limiter 3 200 limit 3 remaining 0 wait of seconds whole
Flask-Limiter 4 200 limit 3 remaining 2 wait of seconds whole
Flask-Limiter 5 429 limit 4 remaining 0 wait of an hour whole
slowapi 1 200 limit 3 remaining 2 wait of seconds with a fraction
slowapi 2 200 limit 3 remaining 1 wait of seconds with a fraction
slowapi 3 200 limit 3 remaining 0 wait of seconds with a fraction
slowapi 4 200 limit 3 remaining 2 wait of seconds with a fraction
slowapi 5 429 limit 4 remaining 0 wait of an hour with a fraction
EOF
