#!/usr/bin/env bash
# io.github.resilience4j:resilience4j-ratelimiter 2.4.0 (Maven), 2026-11-29.
# Guess: acquirePermission(5) of a RateLimiter with a limit of 2 per period is refused at once: no period has 5.
# So: with a timeout that is long enough it takes the permissions of later periods in advance, and is admitted.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
cat > pom.xml <<'EOF'
<project>
  <modelVersion>4.0.0</modelVersion>
  <groupId>probe</groupId>
  <artifactId>probe</artifactId>
  <version>1</version>
  <dependencies>
    <dependency>
      <groupId>io.github.resilience4j</groupId>
      <artifactId>resilience4j-ratelimiter</artifactId>
      <version>2.4.0</version>
    </dependency>
  </dependencies>
</project>
EOF
cat > Probe.java <<'EOF'
import io.github.resilience4j.ratelimiter.RateLimiter;
import io.github.resilience4j.ratelimiter.RateLimiterConfig;
import java.time.Duration;

public class Probe {
  public static void main(String[] arguments) {
    for (Duration timeout : new Duration[] {Duration.ZERO, Duration.ofSeconds(5)}) {
      RateLimiterConfig config = RateLimiterConfig.custom()
          .limitForPeriod(2).limitRefreshPeriod(Duration.ofSeconds(1)).timeoutDuration(timeout).build();
      boolean admitted = RateLimiter.of("probe", config).acquirePermission(5);
      System.out.println("timeout " + timeout + ": " + (admitted ? "admitted" : "refused"));
    }
  }
}
EOF
mvn --batch-mode --quiet dependency:copy-dependencies -DoutputDirectory=jars > install.log
java -cp 'jars/*' Probe.java > seen 2> errors.log
diff - seen <<'EOF'
timeout PT0S: refused
timeout PT5S: admitted
EOF
