// Makes SSTables of rows that come on standard input, as a Cassandra node would have written them:
// so ten million names are stored in minutes, where the driver takes an hour.
//
// One table comes after the other. Its partitions come in the order of their tokens and rows in the
// order of their clustering, all numbers big-endian, all text in UTF-8 behind a u16, its length:
//
//   table      text of the keyspace, empty at the end; the table's CREATE TABLE as a node describes
//              it; a folder for the files; the names of columns that cells are of, by a comma
//              between each; i64 about how many partitions there will be; i64 the second since 1970
//              when all was written; partitions
//   partition  u16 length of the key, 0 at the table's end; the key; u32 number of rows; rows
//   row        u16 length of the clustering, 0 if the table has none; the clustering;
//              u8 whether the row itself was inserted; if so i64 timestamp, i32 seconds to live;
//              u8 number of cells; cells
//   cell       u8 column; i64 timestamp; i32 seconds to live; u32 length of the value; the value

import java.io.BufferedInputStream;
import java.io.DataInputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.List;

import org.apache.cassandra.config.DatabaseDescriptor;
import org.apache.cassandra.cql3.ColumnIdentifier;
import org.apache.cassandra.cql3.statements.schema.CreateTableStatement;
import org.apache.cassandra.db.Clustering;
import org.apache.cassandra.db.LivenessInfo;
import org.apache.cassandra.db.SerializationHeader;
import org.apache.cassandra.db.partitions.PartitionUpdate;
import org.apache.cassandra.db.rows.BTreeRow;
import org.apache.cassandra.db.rows.BufferCell;
import org.apache.cassandra.db.rows.EncodingStats;
import org.apache.cassandra.db.rows.Row;
import org.apache.cassandra.io.sstable.Descriptor;
import org.apache.cassandra.io.sstable.SSTableTxnWriter;
import org.apache.cassandra.io.sstable.SequenceBasedSSTableId;
import org.apache.cassandra.io.util.File;
import org.apache.cassandra.schema.ColumnMetadata;
import org.apache.cassandra.schema.TableMetadata;
import org.apache.cassandra.schema.TableMetadataRef;
import org.apache.cassandra.service.ActiveRepairService;

public class Load {
    private final TableMetadata table;
    private final ColumnMetadata[] columns;
    private final DataInputStream in;
    private final long now;

    public static void main(String[] words) {
        int code = 1;
        try {
            DatabaseDescriptor.toolInitialization();
            DataInputStream in = new DataInputStream(new BufferedInputStream(System.in, 1 << 20));
            for (String keyspace = in.readUTF(); !keyspace.isEmpty(); keyspace = in.readUTF()) {
                TableMetadata table = CreateTableStatement.parse(in.readUTF(), keyspace).build();
                String folder = in.readUTF();
                String columns = in.readUTF();
                long partitions = in.readLong();
                new Load(table, columns, in).write(folder, partitions);
            }
            code = 0;
        } catch (Throwable problem) {
            problem.printStackTrace();
        }
        // Threads of Cassandra's would keep the program.
        System.exit(code);
    }

    private Load(TableMetadata table, String names, DataInputStream in) throws IOException {
        this.table = table;
        this.in = in;
        now = in.readLong();
        columns = Arrays.stream(names.split(",")).filter(name -> !name.isEmpty())
                .map(name -> table.getColumn(ColumnIdentifier.getInterned(name, true)))
                .toArray(ColumnMetadata[]::new);
    }

    private void write(String folder, long partitions) throws IOException {
        Descriptor files = new Descriptor(
                new File(folder), table.keyspace, table.name, new SequenceBasedSSTableId(1));
        SerializationHeader header = new SerializationHeader(
                true, table, table.regularAndStaticColumns(), EncodingStats.NO_STATS);
        SSTableTxnWriter writer = SSTableTxnWriter.create(
                TableMetadataRef.forOfflineTools(table), files, partitions,
                ActiveRepairService.UNREPAIRED_SSTABLE, ActiveRepairService.NO_PENDING_REPAIR,
                false, header, List.of(), null);
        for (int length = in.readUnsignedShort(); length != 0; length = in.readUnsignedShort()) {
            ByteBuffer key = bytes(length);
            int rows = in.readInt();
            PartitionUpdate.Builder partition = new PartitionUpdate.Builder(
                    table, key, table.regularAndStaticColumns(), rows);
            for (int row = 0; row < rows; row++) {
                partition.add(row());
            }
            writer.append(partition.build().unfilteredIterator());
        }
        writer.finish(false);
    }

    private Row row() throws IOException {
        int length = in.readUnsignedShort();
        Row.Builder row = BTreeRow.unsortedBuilder();
        row.newRow(length == 0 ? Clustering.EMPTY : Clustering.make(bytes(length)));
        if (in.readUnsignedByte() != 0) {
            row.addPrimaryKeyLivenessInfo(LivenessInfo.create(in.readLong(), in.readInt(), now));
        }
        int cells = in.readUnsignedByte();
        for (int cell = 0; cell < cells; cell++) {
            ColumnMetadata column = columns[in.readUnsignedByte()];
            long timestamp = in.readLong();
            int ttl = in.readInt();
            row.addCell(BufferCell.expiring(column, timestamp, ttl, now, bytes(in.readInt())));
        }
        return row.build();
    }

    private ByteBuffer bytes(int length) throws IOException {
        byte[] bytes = new byte[length];
        in.readFully(bytes);
        return ByteBuffer.wrap(bytes);
    }
}
