import com.hivemq.embedded.EmbeddedExtension;
import com.hivemq.embedded.EmbeddedHiveMQ;
import com.hivemq.extension.sdk.api.ExtensionMain;
import com.hivemq.extension.sdk.api.auth.SimpleAuthenticator;
import com.hivemq.extension.sdk.api.parameter.ExtensionStartInput;
import com.hivemq.extension.sdk.api.parameter.ExtensionStartOutput;
import com.hivemq.extension.sdk.api.parameter.ExtensionStopInput;
import com.hivemq.extension.sdk.api.parameter.ExtensionStopOutput;
import com.hivemq.extension.sdk.api.services.Services;
import java.nio.file.Files;
import java.nio.file.Path;

/** A HiveMQ that lets everybody in, on this port of the loopback interface, with its files in this folder, until its input ends. */
public final class Broker {
    public static void main(final String[] arguments) throws Exception {
        final Path folder = Path.of(arguments[1]);
        Files.writeString(folder.resolve("config.xml"), """
                <hivemq>
                  <listeners>
                    <tcp-listener><port>%s</port><bind-address>127.0.0.1</bind-address></tcp-listener>
                  </listeners>
                  <mqtt>
                    <receive-maximum><server-receive-maximum>1000</server-receive-maximum></receive-maximum>
                    <queued-messages><max-queue-size>100000</max-queue-size></queued-messages>
                  </mqtt>
                  <persistence><mode>in-memory</mode></persistence>
                  <anonymous-usage-statistics><enabled>false</enabled></anonymous-usage-statistics>
                </hivemq>
                """.formatted(arguments[0]));
        // Without an extension that says who may connect, nobody may.
        final SimpleAuthenticator everybody = (input, output) -> output.authenticateSuccessfully();
        final EmbeddedExtension extension = EmbeddedExtension.builder()
                .withId("everybody")
                .withName("everybody")
                .withVersion("1")
                .withExtensionMain(new ExtensionMain() {
                    @Override
                    public void extensionStart(final ExtensionStartInput input, final ExtensionStartOutput output) {
                        Services.securityRegistry().setAuthenticatorProvider(provided -> everybody);
                    }

                    @Override
                    public void extensionStop(final ExtensionStopInput input, final ExtensionStopOutput output) {
                    }
                })
                .build();
        try (EmbeddedHiveMQ broker = EmbeddedHiveMQ.builder()
                .withConfigurationFolder(folder)
                .withDataFolder(folder)
                .withExtensionsFolder(folder)
                .withEmbeddedExtension(extension)
                .build()) {
            broker.start().join();
            System.out.println("running");
            while (System.in.read() >= 0) {
                // Whoever started it ends it by ending its input, or by its own end.
            }
            broker.stop().join();
        }
    }
}
